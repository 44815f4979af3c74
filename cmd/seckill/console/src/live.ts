// What the server sends by itself, about once a second: samples and jobs.
import { computed, effect, signal } from '@preact/signals';
import { resume, session } from './api';
import type { Job, Sample } from './api';

export const sample = signal<Sample | null>(null);
export const jobs = signal<Job[]>([]); // newest first
export const connected = signal(false);

// now ticks, so that ages are seen to grow when nothing comes.
export const now = signal(Date.now());
setInterval(() => { now.value = Date.now(); }, 250);

// This device's clock may be wrong. The sample that came the fastest says by how much.
let ahead = Infinity;
const note = (at: string) => { ahead = Math.min(ahead, Date.now() - Date.parse(at)); };
export const serverNow = () => now.value - (Number.isFinite(ahead) ? ahead : 0);

// age of the data shown, in seconds.
export const age = computed(() => (sample.value ? Math.max(0, (serverNow() - Date.parse(sample.value.at)) / 1000) : null));

// A rare reading is no stale one: the server says how often it reads.
export const stale = computed(() => {
  const every = (sample.value?.every_ms ?? 1000) / 1000;
  return age.value !== null && age.value > Math.max(4, every * 3);
});

export type Moment = { t: number; sample: Sample };
const longest = 300; // samples, five minutes at one a second
export const history = signal<Moment[]>([]);

function take(s: Sample) {
  if (sample.value && s.seq === sample.value.seq && s.at === sample.value.at) return;
  note(s.at);
  sample.value = s;
  history.value = [...history.value.slice(1 - longest), { t: Date.parse(s.at) / 1000, sample: s }];
}

// keepJob is also called with what a request answered, so that nothing is waited for.
export function keepJob(j: Job) {
  const known = jobs.value.find((k) => k.job === j.job);
  if (known && known.state !== 'running' && j.state === 'running') return; // an older word
  const all = known ? jobs.value.map((k) => (k === known ? j : k)) : [j, ...jobs.value];
  jobs.value = all.sort((a, b) => b.started_at.localeCompare(a.started_at)).slice(0, 50);
}

const pause = 2000; // ms before another try, when the browser does not try by itself

effect(() => {
  if (!session.value) return;
  let source: EventSource;
  let again = 0;
  const open = () => {
    source = new EventSource('/admin/v1/live');
    source.onopen = () => { connected.value = true; };
    source.addEventListener('sample', (e) => take(JSON.parse(e.data)));
    source.addEventListener('job', (e) => keepJob(JSON.parse(e.data)));
    source.onerror = () => {
      connected.value = false;
      if (source.readyState !== EventSource.CLOSED) return;
      void resume().catch(() => undefined); // the session may be over
      again = window.setTimeout(open, pause);
    };
  };
  open();
  return () => { source.close(); clearTimeout(again); connected.value = false; };
});
