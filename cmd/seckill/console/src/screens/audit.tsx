// Three books side by side, and who did what, why.
import { useState } from 'preact/hooks';
import { audit, cancelJob, mayChange } from '../api';
import type { AuditReport, Job } from '../api';
import { jobs, keepJob, sample } from '../live';
import { link, param, refine } from '../route';
import { Badge, Empty, Fault, Panel, Scroll } from '../ui';
import { clock, count, many, signed } from '../words';
import { ActivityLog } from './activity_log';
import { JobState } from './jobs';
import { SalePick } from './orders';

export function Audit() {
  return (
    <>
      <div class="title"><h1>Audit and activity log</h1></div>
      <Books />
      <ActivityLog />
    </>
  );
}

const patience = '10s'; // for everything to come to rest

function Books() {
  const [error, setError] = useState<Error | null>(null);
  const all = jobs.value.filter((j) => j.kind === 'audit');
  const job = all.find((j) => j.job === param('run')) ?? all[0];
  const running = all.find((j) => j.state === 'running');
  const begin = async () => {
    setError(null);
    try { const j = await audit(param('activity'), patience); keepJob(j); refine({ run: j.job }); } catch (problem) { setError(problem as Error); }
  };
  const actions = (
    <>
      <label><span class="visually-hidden">Sale</span><SalePick value={param('activity')} all pick={(activity) => refine({ activity })} /></label>
      <button type="button" class="primary" disabled={!!running} onClick={begin}>{running ? 'Auditing …' : 'Run now'}</button>
      {running && mayChange() && <button type="button" onClick={() => void cancelJob(running.job).then(keepJob, () => undefined)}>Stop</button>}
    </>
  );
  return (
    <Panel title="Audit" note={<>reads gate, order log and ledger themselves, and changes nothing; audits are those of process <code>{sample.value?.process.instance ?? '…'}</code></>} actions={actions}>
      {error && <Fault error={error} />}
      {job ? <One job={job} /> : <Empty title="No audit was run by this process yet">Run one; it may take a while on a large sale.</Empty>}
      {all.length > 1 && <Past all={all} shown={job!} />}
    </Panel>
  );
}

function One({ job }: { job: Job }) {
  const r = job.result as AuditReport | null;
  return <><JobState job={job} />{r && <Report r={r} />}</>;
}

function Report({ r }: { r: AuditReport }) {
  const skus = r.activities.flatMap((a) => a.skus);
  const live = skus.reduce((n, s) => n + s.live, 0);
  return (
    <>
      <p class={`verdict-line ${r.ok ? 'good' : 'bad'}`} data-verdict={r.ok ? 'ok' : 'broken'}>
        <strong>{r.ok ? 'Every law holds' : `${many(r.violations.length, 'law')} broken`}</strong>
        {' '}{r.at_rest ? 'All three were read at rest.' : 'Orders moved meanwhile; what needs rest was not judged.'}
      </p>
      <dl class="books">
        <Book name="Gate" facts={[['Units left', skus.reduce((n, s) => n + (s.gate_stock ?? 0), 0)], ['Units in flight', skus.reduce((n, s) => n + s.undecided, 0)]]} />
        <Book name="Order log" facts={[['Orders', r.log.orders], ['Waiting', r.log.backlog], ['Dead letters', r.log.dead]]} />
        <Book name="Ledger" facts={[['Units sold', live], ['Units left', skus.reduce((n, s) => n + s.stock, 0)], ['Coming back', skus.reduce((n, s) => n + s.release_due, 0)]]} />
      </dl>
      {r.violations.length > 0 && <Violations r={r} />}
      <Sides r={r} />
    </>
  );
}

const Book = ({ name, facts }: { name: string; facts: [string, number][] }) => (
  <div><dt>{name}</dt><dd><ul>{facts.map(([k, n]) => <li key={k}><span class="quiet">{k}</span> <b>{count(n)}</b></li>)}</ul></dd></div>
);

function Violations({ r }: { r: AuditReport }) {
  return (
    <Scroll label="Broken laws">
      <table>
        <thead><tr><th>Law</th><th>Sale</th><th>SKU</th><th>Order</th><th>What is wrong</th></tr></thead>
        <tbody>{r.violations.map((v, i) => (
          <tr key={i}><th scope="row"><Badge tone="bad">{v.law}</Badge></th><td>{v.activity}</td><td>{v.sku}</td><td>{v.order ? <a href={link('orders', v.order)}><code>{v.order}</code></a> : '–'}</td><td class="wrap">{v.detail}</td></tr>
        ))}</tbody>
      </table>
    </Scroll>
  );
}

function Sides({ r }: { r: AuditReport }) {
  const rows = r.activities.flatMap((a) => a.skus.map((s) => ({ activity: a.activity, ...s })));
  return (
    <Scroll label="Books by SKU">
      <table class="sides">
        <thead>
          <tr><td colSpan={3} /><th class="group" scope="colgroup" colSpan={3}>Ledger</th><th class="group" scope="colgroup" colSpan={2}>Gate</th><td /></tr>
          <tr><th>Sale</th><th>SKU</th><th class="num">Total</th><th class="num">Sold</th><th class="num">Left</th><th class="num">Coming back</th><th class="num">In flight</th><th class="num">Left</th><th class="num">Sum</th></tr>
        </thead>
        <tbody>{rows.map((s) => {
          const off = s.gate_stock === null ? null : s.live + s.undecided + s.release_due + s.gate_stock - s.total;
          return (
            <tr key={`${s.activity}/${s.sku}`}>
              <th scope="row"><a href={link('live', s.activity)}>{s.activity}</a></th><td>{s.sku}</td><td class="num">{count(s.total)}</td>
              <td class="num">{count(s.live)}</td><td class="num">{count(s.stock)}</td><td class="num">{count(s.release_due)}</td><td class="num">{count(s.undecided)}</td><td class="num">{count(s.gate_stock)}</td>
              <td class="num">{off === null ? <span class="quiet">no gate</span> : off === 0 ? '✓' : signed(off)}</td>
            </tr>
          );
        })}</tbody>
      </table>
    </Scroll>
  );
}

function Past({ all, shown }: { all: Job[]; shown: Job }) {
  return (
    <details>
      <summary>Earlier audits of this process ({count(all.length - 1)})</summary>
      <ul class="past">{all.map((j) => (
        <li key={j.job}><a href={link('audit', '', { ...Object.fromEntries(new URLSearchParams()), run: j.job })} aria-current={j === shown ? 'true' : undefined}>{clock(j.started_at)}</a> {verdictOf(j)} <span class="quiet">{String(j.asked.activity ?? '') || 'all sales'}, {j.actor}</span></li>
      ))}</ul>
    </details>
  );
}

function verdictOf(j: Job) {
  const r = j.result as AuditReport | null;
  if (!r) return <Badge tone={j.state === 'failed' ? 'bad' : 'info'}>{j.state}</Badge>;
  return r.ok ? <Badge tone="good">every law holds</Badge> : <Badge tone="bad">{many(r.violations.length, 'law')} broken</Badge>;
}
