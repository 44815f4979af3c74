// Orders that could not be settled as they are: see why, replay or drop; and replays of
// any range of the log.
import { useState } from 'preact/hooks';
import { letters, mayChange } from '../api';
import type { Decided, Group, Letter, Letters } from '../api';
import { sample } from '../live';
import { useLoad } from '../load';
import { link, param, refine } from '../route';
import { Badge, Copy, Empty, Fault, Panel, Scroll } from '../ui';
import { clock, count, many } from '../words';
import { AllButtons, DecideButtons } from './dead_decide';
import { Replays } from './replays';

export function Dead() {
  const activity = param('activity');
  // The number in the live sample says when there is something new to read.
  const found = useLoad(() => letters({ activity, after: Number(param('after')) || undefined }), [activity, param('after'), sample.value?.log?.dead_letters]);
  return (
    <>
      <div class="title"><h1>Dead letters and replays</h1>
        {found.value && <Badge tone={found.value.total ? 'bad' : 'good'}>{found.value.total ? many(found.value.total, 'dead letter') : 'no dead letter'}</Badge>}
      </div>
      {found.error && <Fault error={found.error} retry={found.again} />}
      {found.value && <Waiting all={found.value} again={found.again} />}
      <Replays />
    </>
  );
}

const keyOf = (g: Group) => `${g.activity}|${g.reason}|${g.detail}`;

function Waiting({ all, again }: { all: Letters; again: () => void }) {
  const [done, setDone] = useState<Decided | null>(null);
  const group = all.groups.find((g) => keyOf(g) === param('group'));
  const shown = group ? all.letters.filter((l) => group.ids.includes(l.id)) : all.letters;
  if (all.total === 0 && !done) {
    return <Panel title="Waiting for a decision"><Empty title="No order waits for a decision">An order comes here when it cannot be settled as it is; its units stay reserved until you decide.</Empty></Panel>;
  }
  return (
    <>
      {all.total > 0 && <Groups all={all} chosen={group} decided={(d) => { setDone(d); again(); }} />}
      {done && <Outcome done={done} close={() => setDone(null)} />}
      {all.total > 0 && <List shown={shown} group={group} all={all} decided={(d) => { setDone(d); again(); }} />}
    </>
  );
}

function Groups({ all, chosen, decided }: { all: Letters; chosen?: Group; decided: (d: Decided) => void }) {
  return (
    <Panel title="By reason" note={all.grouped < all.total ? `of the first ${count(all.grouped)}` : undefined}
      actions={chosen && <>{mayChange() && <AllButtons group={chosen} decided={decided} />}<button type="button" onClick={() => refine({ group: undefined })}>Show all reasons</button></>}>
      <Scroll label="Dead letters by reason">
        <table>
          <thead><tr><th>Reason</th><th>Sale</th><th class="num">Letters</th><th>First</th><th>Last</th><th>Detail</th></tr></thead>
          <tbody>{all.groups.map((g) => (
            <tr key={keyOf(g)} data-row class={g === chosen ? 'selected' : ''}>
              <th scope="row"><a href={link('dead', '', { activity: param('activity'), group: keyOf(g) })}>{g.reason}</a></th>
              <td>{g.activity}</td><td class="num">{count(g.count)}</td><td>{clock(g.first_at)}</td><td>{clock(g.last_at)}</td><td class="wrap quiet">{g.detail}</td>
            </tr>
          ))}</tbody>
        </table>
      </Scroll>
    </Panel>
  );
}

function List({ shown, group, all, decided }: { shown: Letter[]; group?: Group; all: Letters; decided: (d: Decided) => void }) {
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const chosen = shown.filter((l) => picked.has(l.id));
  const toggle = (id: string) => {
    const next = new Set(picked);
    if (!next.delete(id)) next.add(id);
    setPicked(next);
  };
  const everyone = chosen.length === shown.length && shown.length > 0;
  return (
    <Panel title={group ? `Letters: ${group.reason}` : 'Letters'} note={group && group.count > group.ids.length ? `the first ${count(group.ids.length)} of ${count(group.count)}` : all.next ? `the first ${count(all.letters.length)} of ${count(all.total)}` : 'oldest first'}
      actions={mayChange() && <DecideButtons chosen={chosen} decided={(d) => { setPicked(new Set()); decided(d); }} />}>
      <Scroll label="Dead letters">
        <table>
          <thead><tr>
            {mayChange() && <th><input type="checkbox" aria-label={`Select all ${shown.length} shown`} checked={everyone} onChange={() => setPicked(new Set(everyone ? [] : shown.map((l) => l.id)))} /></th>}
            <th>Order</th><th>Buyer</th><th>Status</th><th>SKU</th><th class="num">Units</th><th>Reason</th><th class="num">Message</th><th class="num">Deliveries</th><th>At</th>
          </tr></thead>
          <tbody>{shown.map((l) => (
            <tr key={l.number} data-row class={picked.has(l.id) ? 'selected' : ''}>
              {mayChange() && <td><input type="checkbox" aria-label={`Select ${l.id}`} checked={picked.has(l.id)} onChange={() => toggle(l.id)} /></td>}
              <td>{l.order ? <a href={link('orders', l.id)}><code>{`${l.id.slice(0, 8)}…${l.id.slice(-4)}`}</code></a> : <Copy text={l.id} />}</td>
              <td>{l.order?.user ?? '–'}</td><td>{l.status ? <Badge state={l.status} /> : '–'}</td><td>{l.order?.sku ?? '–'}</td><td class="num">{count(l.order?.quantity)}</td>
              <td title={l.detail}>{l.reason}</td><td class="num">{count(l.seq)}</td><td class="num">{count(l.deliveries)}</td><td>{clock(l.at)}</td>
            </tr>
          ))}</tbody>
        </table>
      </Scroll>
      {all.next && <div class="actions"><a class="button small" href={link('dead', '', { activity: param('activity'), after: String(all.next) })}>Next page</a></div>}
    </Panel>
  );
}

const shownRulings = 200;

// Outcome shows exactly the letters that were decided.
function Outcome({ done, close }: { done: Decided; close: () => void }) {
  return (
    <Panel title={`Decided: ${many(done.letters.length, 'letter')}${done.failed.length ? `, ${count(done.failed.length)} failed` : ''}`} actions={<button type="button" class="small" onClick={close}>Close</button>}>
      {done.letters.length > shownRulings && <p class="quiet">The first {count(shownRulings)} of {count(done.letters.length)}; the activity log has all.</p>}
      <Scroll label="What became of them">
        <table>
          <thead><tr><th>Letter</th><th>Result</th><th>Detail</th></tr></thead>
          <tbody>
            {done.failed.map((f) => <tr key={f.id}><td><code>{f.id}</code></td><td><Badge tone="bad">failed</Badge></td><td class="wrap">{f.detail}</td></tr>)}
            {done.letters.slice(0, shownRulings).map((l) => (
              <tr key={l.id}><td><a href={link('orders', l.id)}><code>{l.id}</code></a></td><td><Badge tone="good">{l.result}</Badge> {l.status && <Badge state={l.status} />}</td><td class="wrap">{l.reason}</td></tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Panel>
  );
}
