// Long work of the server: how far it is, and how it ended.
import type { Job } from '../api';
import { Badge } from '../ui';
import { clock, count, span } from '../words';

const names = { audit: 'Audit', replay: 'Replay', 'replay-plan': 'Plan' };
const tones = { running: 'info', done: 'good', failed: 'bad', cancelled: 'wait' } as const;

export function JobState({ job }: { job: Job }) {
  const took = job.ended_at ? (Date.parse(job.ended_at) - Date.parse(job.started_at)) / 1000 : null;
  return (
    <div class="jobstate" role="status">
      <p><strong>{names[job.kind]}</strong> <Badge tone={tones[job.state]}>{job.state}</Badge> <span class="quiet">{job.actor}, {clock(job.started_at)}{took !== null && `, took ${span(took)}`}{job.reason && `: “${job.reason}”`}</span></p>
      {job.state === 'running' && <progress aria-label={`${names[job.kind]}: messages read`} max={job.of || undefined} value={job.of ? job.read : undefined} />}
      {job.state === 'running' && job.of > 0 && <p class="quiet">{count(job.read)} of {count(job.of)} messages</p>}
      {job.error && <p class="fault">{job.error}</p>}
    </div>
  );
}
