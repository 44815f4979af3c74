// Gate, order log, workers, ledger: is each there, what waits where, who holds what.
import { attention, storeName } from '../attention';
import { mayChange, releaseLease } from '../api';
import type { Lease, Partition, Sample, Store } from '../api';
import { ask } from '../confirm';
import { age, sample } from '../live';
import { Badge, Copy, Empty, Panel, Scroll } from '../ui';
import { clock, count, many, span } from '../words';

export function Pipeline() {
  const s = sample.value;
  if (!s) return <><h1>Pipeline and locks</h1><p role="status">Waiting for the first sample …</p></>;
  const found = attention.value.filter((a) => a.screen === 'pipeline');
  return (
    <>
      <div class="title"><h1>Pipeline and locks</h1><span class="quiet">seen from {s.process.instance}, {s.process.roles.join(' and ')}, version {s.process.version}</span></div>
      {found.length > 0 && <ul class="attentions" aria-label="To look at">{found.map((a) => <li key={a.what} class={a.tone}><strong>{a.what}</strong><span>{a.next}</span></li>)}</ul>}
      <div class="grid four">{(s.stores ?? []).map((x) => <StoreBox key={x.store} x={x} s={s} />)}</div>
      <Partitions list={s.partitions} backend={s.lock_backend} />
      <Locks list={(s.locks ?? []).filter((l) => !l.name.startsWith('partition/'))} known={s.locks !== null} backend={s.lock_backend} />
    </>
  );
}

const part: Record<string, string> = { redis: 'Gate', nats: 'Order log', postgres: 'Ledger', etcd: 'Lock store' };

function StoreBox({ x, s }: { x: Store; s: Sample }) {
  return (
    <section class="panel" aria-label={storeName(x.store)} data-store={x.store}>
      <header><h2>{part[x.store] ?? x.store}</h2><span class="quiet">{storeName(x.store)}</span><span class="actions"><Badge tone={x.up ? 'good' : 'bad'}>{x.up ? 'answers' : 'away'}</Badge></span></header>
      {x.error && <p class="fault">{x.error}</p>}
      <dl class="facts"><Fact name="Answered in" value={x.up ? span(x.ms / 1000) : '–'} />{factsOf(x.store, s)}</dl>
    </section>
  );
}

function Fact({ name, value, hint }: { name: string; value: string; hint?: string }) {
  return <div title={hint}><dt>{name}</dt><dd>{value}</dd></div>;
}

function factsOf(store: string, s: Sample) {
  const l = s.log;
  const open = (s.activities ?? []).filter((a) => a.state === 'open' || a.state === 'paused');
  switch (store) {
    case 'redis': return <><Fact name="Gates ready" value={`${count(open.filter((a) => a.gate === 'open' || a.gate === 'paused').length)} of ${count(open.length)}`} /><Fact name="Coming back" value={count(l?.release_due)} hint="units given up in the ledger, not yet at the gate" /></>;
    case 'nats': return <><Fact name="Messages" value={count(l?.messages)} /><Fact name="Dead letters" value={count(l?.dead_letters)} /></>;
    case 'postgres': return <><Fact name="Not decided" value={count(l?.undecided_orders)} /><Fact name="Oldest" value={l && l.undecided_orders > 0 ? span(l.oldest_unsettled_seconds) : '–'} /><Fact name="Events to send" value={count(l?.events_backlog)} /></>;
    default: return <><Fact name="Leases held" value={count(s.locks?.length)} /><Fact name="Waiting" value={count(s.locks?.reduce((n, k) => n + k.waiters, 0))} /></>;
  }
}

function Partitions({ list, backend }: { list: Partition[] | null; backend: string }) {
  if (!list) return <Panel title="Partitions"><Empty title="The order log or the ledger could not be read" /></Panel>;
  const sum = (read: (p: Partition) => number) => list.reduce((n, p) => n + read(p), 0);
  return (
    <Panel title="Partitions" note={`${count(list.filter((p) => p.lease).length)} of ${many(list.length, 'partition')} held, leases in ${backend}`}>
      <p class="quiet">Unread: no worker was given it. In flight: given and not settled yet. Redelivered: given more than once and not settled. None of them is lost.</p>
      <Scroll label="Partitions">
        <table>
          <thead><tr>
            <th class="num">Partition</th><th>Held by</th><th class="num">Term</th><th class="num">Token</th><th class="num">TTL left</th>
            <th class="num">Orders waiting</th><th class="num">Unread</th><th class="num">In flight</th><th class="num">Redelivered</th><th class="num">Settled to</th>{mayChange() && <th><span class="visually-hidden">Change</span></th>}
          </tr></thead>
          <tbody>{list.map((p) => (
            <tr key={p.partition} data-row data-partition={p.partition}>
              <th scope="row" class="num">{p.partition}</th>
              <td>{p.lease ? <code>{p.lease.owner}</code> : <Badge tone={p.backlog_orders > 0 ? 'bad' : 'wait'}>nobody</Badge>}</td>
              <td class="num">{count(p.term)}</td><td class="num">{p.lease ? count(p.lease.token) : '–'}</td><td class="num">{p.lease ? <TTL lease={p.lease} /> : '–'}</td>
              <td class="num">{count(p.backlog_orders)}</td><td class="num">{count(p.unread)}</td><td class="num">{count(p.in_flight)}</td>
              <td class="num">{p.redelivered > 0 ? <Badge tone="wait">{count(p.redelivered)}</Badge> : '0'}</td><td class="num">{count(p.settled_seq)}</td>
              {mayChange() && <td class="num act">{p.lease && <Release lease={p.lease} />}</td>}
            </tr>
          ))}</tbody>
          <tfoot><tr><th class="num" scope="row">All</th><td /><td /><td /><td /><td class="num">{count(sum((p) => p.backlog_orders))}</td><td class="num">{count(sum((p) => p.unread))}</td><td class="num">{count(sum((p) => p.in_flight))}</td><td class="num">{count(sum((p) => p.redelivered))}</td><td />{mayChange() && <td />}</tr></tfoot>
        </table>
      </Scroll>
    </Panel>
  );
}

// TTL runs down between two samples, as the lease does.
function TTL({ lease }: { lease: Lease }) {
  const left = lease.ttl_ms / 1000 - (age.value ?? 0);
  return left > 0 ? <>{left.toFixed(1)} s</> : <Badge tone="wait">0 s</Badge>;
}

const effects: Record<string, string> = {
  partition: 'its holder stops settling at once, and a worker takes it anew',
  member: 'this process is no longer counted as a worker until it comes back',
  rebuild: 'another worker may make this gate at the same time; the newest wins',
  job: 'the job stops here and is taken up by whoever gets the lease next',
};

function Release({ lease }: { lease: Lease }) {
  const release = () => ask({
    title: `Release ${lease.name}: ${effects[lease.name.split('/')[0]] ?? 'its holder loses it at once'}`,
    detail: <>Held by <code>{lease.owner}</code> since {clock(lease.since)}, token {count(lease.token)}. Nothing is settled twice by this: the ledger refuses the old holder by its term.</>,
    verb: 'Release it', danger: true, reason: 'required',
    run: async ({ reason }) => { await releaseLease(lease.name, lease.token, reason); return `${lease.name} is released.`; },
  });
  return <button type="button" class="small" onClick={release}>Release …<span class="visually-hidden"> {lease.name}</span></button>;
}

function Locks({ list, known, backend }: { list: Lease[]; known: boolean; backend: string }) {
  return (
    <Panel title="Other locks" note={`in ${backend}`}>
      {!known && <Empty title="The lock store could not be read">Orders are taken all the same.</Empty>}
      {known && list.length === 0 && <Empty title="No lock is held">A running worker holds some: is there one?</Empty>}
      {list.length > 0 && (
        <Scroll label="Other locks">
          <table>
            <thead><tr><th>Lock</th><th>Held by</th><th class="num">Token</th><th class="num">TTL left</th><th>Since</th><th class="num">Waiting</th>{mayChange() && <th><span class="visually-hidden">Change</span></th>}</tr></thead>
            <tbody>{list.map((l) => (
              <tr key={l.name} data-row>
                <th scope="row">{l.name}{l.note && !l.name.endsWith(`/${l.note}`) && <span class="quiet"> {l.note}</span>}</th><td><Copy text={l.owner} /></td><td class="num">{count(l.token)}</td><td class="num"><TTL lease={l} /></td>
                <td>{clock(l.since)}</td><td class="num">{count(l.waiters)}</td>{mayChange() && <td class="num act"><Release lease={l} /></td>}
              </tr>
            ))}</tbody>
          </table>
        </Scroll>
      )}
    </Panel>
  );
}
