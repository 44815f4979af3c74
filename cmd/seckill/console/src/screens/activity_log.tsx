import { useEffect, useState } from 'preact/hooks';
import { activityLog } from '../api';
import type { Entry } from '../api';
import { jobs } from '../live';
import { useLoad } from '../load';
import { link, param, refine } from '../route';
import { Empty, Fault, Panel, Scroll } from '../ui';
import { clock } from '../words';

export function ActivityLog() {
  const q = { subject: param('subject'), actor: param('actor'), before: Number(param('before')) || undefined };
  const found = useLoad(() => activityLog(q), [q.subject, q.actor, q.before, jobs.value.filter((j) => j.state !== 'running').length]);
  const next = found.value?.next;
  return (
    <Panel title="Activity log" note={found.at > 0 ? `who did what, and why · read ${clock(new Date(found.at).toISOString())}` : 'who did what, and why'}
      actions={<button type="button" class="small" onClick={found.again} disabled={found.busy}>Read again</button>}>
      <Filters />
      {found.error && <Fault error={found.error} retry={found.again} />}
      {found.value && (found.value.entries.length ? <Table entries={found.value.entries} /> : <Empty title="Nothing of this kind was done">Every change of an operator is written here, from the console and the command line.</Empty>)}
      <div class="actions">
        {q.before && <button type="button" class="small" onClick={() => refine({ before: undefined })}>Newest</button>}
        {next && <button type="button" class="small" onClick={() => refine({ before: String(next) })}>Older</button>}
      </div>
    </Panel>
  );
}

function Filters() {
  const [subject, setSubject] = useState(param('subject'));
  const [actor, setActor] = useState(param('actor'));
  useEffect(() => { setSubject(param('subject')); setActor(param('actor')); }, [param('subject'), param('actor')]);
  return (
    <form class="filters" role="search" onSubmit={(e) => { e.preventDefault(); refine({ subject: subject.trim(), actor: actor.trim(), before: undefined }); }}>
      <label class="grow"><span>Subject</span><input data-search type="search" name="subject" value={subject} placeholder="a sale, an order, a lock" onInput={(e) => setSubject(e.currentTarget.value)} /></label>
      <label class="grow"><span>Who</span><input type="search" name="actor" value={actor} placeholder="console (ann)" onInput={(e) => setActor(e.currentTarget.value)} /></label>
      <button type="submit">Filter</button>
    </form>
  );
}

const order = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

function Table({ entries }: { entries: Entry[] }) {
  return (
    <Scroll label="Activity log">
      <table>
        <thead><tr><th>When</th><th>Who</th><th>What</th><th>Subject</th><th>Detail</th><th>Why</th></tr></thead>
        <tbody>{entries.map((e) => (
          <tr key={e.id} data-row>
            <td>{clock(e.at)}</td><td>{e.actor}</td><th scope="row">{e.action}</th>
            <td>{order.test(e.subject) ? <a href={link('orders', e.subject)}><code>{`${e.subject.slice(0, 8)}…${e.subject.slice(-4)}`}</code></a> : e.subject}</td>
            <td class="wrap">{e.detail}</td><td class="wrap">{e.reason}</td>
          </tr>
        ))}</tbody>
      </table>
    </Scroll>
  );
}
