// A replay: choose, plan (which changes nothing), run, watch it, see how it ended.
import { useState } from 'preact/hooks';
import { cancelJob, mayChange, planReplay, replays, resumeReplay, runReplay } from '../api';
import type { Job, Run, Selection, Summary } from '../api';
import { ask } from '../confirm';
import { jobs, keepJob, sample } from '../live';
import { useLoad } from '../load';
import { link } from '../route';
import { Badge, Copy, Empty, Fault, Panel, Scroll } from '../ui';
import { clock, count, many } from '../words';
import { JobState } from './jobs';

export function Replays() {
  const ended = jobs.value.filter((j) => j.kind === 'replay' && j.state !== 'running').length;
  const running = jobs.value.some((j) => j.kind === 'replay' && j.state === 'running');
  const runs = useLoad(replays, [ended, running]);
  return (
    <>
      {mayChange() && <New />}
      <Panel title="Replays" actions={<button type="button" class="small" onClick={runs.again} disabled={runs.busy}>Read again</button>}>
        {runs.error && <Fault error={runs.error} retry={runs.again} />}
        {runs.value && (runs.value.replays.length ? <Runs runs={runs.value.replays} /> : <Empty title="Nothing was replayed yet">Replays of the command line appear here as well.</Empty>)}
      </Panel>
    </>
  );
}

const empty: Selection = { source: 'dead', mode: 'republish' };

function New() {
  const [s, set] = useState<Selection>(empty);
  const [rate, setRate] = useState<number | undefined>();
  const [planned, setPlanned] = useState<string>('');
  const [error, setError] = useState<Error | null>(null);
  const change = (c: Partial<Selection>) => { set(tidy({ ...s, ...c })); setPlanned(''); };
  const latest = jobs.value.find((j) => j.kind !== 'audit');
  const plan = jobs.value.find((j) => j.job === planned);
  const begin = async (e: Event) => {
    e.preventDefault();
    setError(null);
    try { const j = await planReplay(s); keepJob(j); setPlanned(j.job); } catch (problem) { setError(problem as Error); }
  };
  return (
    <Panel title="New replay" note={<>has no effect on an order that is decided; runs in process <code>{sample.value?.process.instance ?? '…'}</code></>}>
      <form class="filters" onSubmit={begin}>
        <Fields s={s} change={change} />
        <label><span>Most orders per second</span><input name="replay-rate" inputMode="numeric" pattern="[0-9]*" size={8} placeholder="no limit" onInput={(e) => setRate(Number(e.currentTarget.value) || undefined)} /></label>
        <button type="submit" class="primary" disabled={plan?.state === 'running'}>Plan</button>
      </form>
      {error && <Fault error={error} />}
      {plan && <Planned plan={plan} s={s} rate={rate} />}
      {!plan && latest && <JobLine job={latest} />}
    </Panel>
  );
}

// tidy leaves out what was not filled in.
function tidy(s: Selection): Selection {
  return Object.fromEntries(Object.entries(s).filter(([, v]) => v !== '' && v !== undefined && !Number.isNaN(v))) as Selection;
}

function Fields({ s, change }: { s: Selection; change: (c: Partial<Selection>) => void }) {
  const text = (name: 'sku' | 'user' | 'order', label: string) => (
    <label><span>{label}</span><input name={`replay-${name}`} autocomplete="off" size={12} value={s[name] ?? ''} onInput={(e) => change({ [name]: e.currentTarget.value.trim() })} /></label>
  );
  const number = (name: 'partition' | 'from_seq' | 'to_seq', label: string) => (
    <label><span>{label}</span><input name={`replay-${name}`} inputMode="numeric" pattern="[0-9]*" size={8} value={s[name] ?? ''} onInput={(e) => change({ [name]: e.currentTarget.value ? Number(e.currentTarget.value) : undefined })} /></label>
  );
  const time = (name: 'since' | 'until', label: string) => (
    <label><span>{label}</span><input name={`replay-${name}`} type="datetime-local" step="1" onInput={(e) => change({ [name]: e.currentTarget.value ? new Date(e.currentTarget.value).toISOString() : undefined })} /></label>
  );
  return (
    <>
      <label><span>Source</span>
        <select value={s.source} onChange={(e) => change({ source: e.currentTarget.value, from_seq: undefined, to_seq: undefined })}><option value="dead">dead letters</option><option value="orders">order log</option></select>
      </label>
      <label><span>How</span>
        <select value={s.mode} onChange={(e) => change({ mode: e.currentTarget.value })}><option value="republish">append again, workers settle</option><option value="apply">settle here, no worker may run</option></select>
      </label>
      <label><span>Sale</span>
        <select value={s.activity ?? ''} onChange={(e) => change({ activity: e.currentTarget.value })}><option value="">any</option>{sample.value?.activities?.map((a) => <option key={a.activity} value={a.activity}>{a.activity}</option>)}</select>
      </label>
      {text('sku', 'SKU')}{text('user', 'Buyer')}{text('order', 'Order id')}{number('partition', 'Partition')}
      {time('since', 'Reserved since, your time')}{time('until', 'Reserved before, your time')}
      {s.source === 'orders' && <>{number('from_seq', 'From message')}{number('to_seq', 'To message')}</>}
    </>
  );
}

function Planned({ plan, s, rate }: { plan: Job; s: Selection; rate?: number }) {
  const [error, setError] = useState<Error | null>(null);
  const r = plan.result as Summary | null;
  const run = () => ask({
    title: `Replay ${many(r!.matched, 'order')}: ${count((r!.undecided ?? 0) + r!.dead)} without a decision are settled, if stock and limit allow`,
    detail: `${count(r!.already)} are decided already and stay as they are. It reads messages ${count(r!.from_seq)} to ${count(r!.to_seq)}${rate ? `, at most ${many(rate, 'order')} a second` : ''}.`, verb: 'Run the replay', reason: 'required',
    run: async ({ reason }) => { setError(null); keepJob(await runReplay(s, rate, reason)); return 'The replay runs.'; },
  });
  const running = jobs.value.find((j) => j.kind === 'replay' && j.started_at >= plan.started_at);
  return (
    <>
      <JobLine job={plan} />
      {error && <Fault error={error} />}
      {plan.state === 'done' && r && !running && <div class="actions"><button type="button" class="primary" disabled={r.matched === 0} onClick={run}>{r.matched === 0 ? 'Nothing to replay' : `Run: ${many(r.matched, 'order')} …`}</button></div>}
      {running && <JobLine job={running} />}
    </>
  );
}

const shown: [keyof Summary, string][] = [
  ['read', 'messages read'], ['matched', 'orders matched'], ['undecided', 'without a decision'], ['settled', 'settled'], ['already', 'decided before'],
  ['rejected', 'rejected'], ['dead', 'dead letters still'], ['unknown', 'not decided in time'],
];

function JobLine({ job }: { job: Job }) {
  const r = job.result as Summary | null;
  return (
    <div class="job">
      <JobState job={job} />
      {job.state === 'running' && mayChange() && <button type="button" class="small" onClick={() => void cancelJob(job.job).then(keepJob, () => undefined)}>Stop</button>}
      {r && <ul class="legend">{shown.filter(([k]) => r[k] !== undefined && (r[k] !== 0 || k === 'matched')).map(([k, label]) => <li key={k}><b>{count(r[k] as number)}</b> {label}</li>)}</ul>}
      {r?.lines && r.lines.length > 0 && <Lines lines={r.lines} />}
    </div>
  );
}

function Lines({ lines }: { lines: NonNullable<Summary['lines']> }) {
  return (
    <Scroll label="Orders of this replay">
      <table>
        <thead><tr><th>Order</th><th class="num">Message</th><th>Result</th><th>Reason</th></tr></thead>
        <tbody>{lines.map((l) => (
          <tr key={l.order_id + l.seq}><td>{l.order_id ? <a href={link('orders', l.order_id)}><code>{l.order_id}</code></a> : '–'}</td><td class="num">{count(l.seq)}</td><td><Badge state={l.result} /></td><td class="wrap">{l.reason}</td></tr>
        ))}</tbody>
      </table>
    </Scroll>
  );
}

function Runs({ runs }: { runs: Run[] }) {
  const going = new Set(jobs.value.filter((j) => j.state === 'running').map((j) => j.run));
  return (
    <Scroll label="Replays">
      <table>
        <thead><tr><th>Run</th><th>Began</th><th>Selection</th><th>State</th><th class="num">Matched</th><th class="num">Settled</th><th class="num">Already</th><th class="num">Rejected</th><th class="num">Dead</th><th class="num">Unknown</th>{mayChange() && <th><span class="visually-hidden">Change</span></th>}</tr></thead>
        <tbody>{runs.map((r) => (
          <tr key={r.run} data-row>
            <td><Copy text={r.run} short /></td><td>{clock(r.started_at)}</td><td>{selected(r.selection)}</td>
            <td>{r.finished_at ? <Badge tone="good">finished</Badge> : going.has(r.run) ? <Badge tone="info">running</Badge> : <Badge tone="wait">stopped at {count(r.position)} of {count(r.to_seq)}</Badge>}</td>
            <td class="num">{count(r.matched)}</td><td class="num">{count(r.settled)}</td><td class="num">{count(r.already)}</td><td class="num">{count(r.rejected)}</td><td class="num">{count(r.dead)}</td><td class="num">{count(r.unknown)}</td>
            {mayChange() && <td class="act">{!r.finished_at && !going.has(r.run) && <button type="button" class="small" onClick={() => resumeRun(r)}>Resume …</button>}</td>}
          </tr>
        ))}</tbody>
      </table>
    </Scroll>
  );
}

const selected = (s: Selection) => [s.source === 'dead' ? 'dead letters' : 'order log', s.mode, s.activity, s.sku, s.user, s.order,
  s.partition !== undefined && `partition ${s.partition}`, s.since && `since ${clock(s.since)}`, s.until && `before ${clock(s.until)}`].filter(Boolean).join(' · ');

const resumeRun = (r: Run) => ask({
  title: `Resume the replay of ${clock(r.started_at)}: messages ${count(r.position + 1)} to ${count(r.to_seq)} are left`,
  verb: 'Resume', reason: 'required',
  run: async ({ reason }) => { keepJob(await resumeReplay(r.run, reason)); return 'The replay goes on.'; },
});
