// Find orders by id, buyer, sale and status; and one order's whole way.
import { useEffect, useState } from 'preact/hooks';
import { cancelOrder, findOrders, mayChange, orderWay } from '../api';
import type { Order, Way } from '../api';
import { ask } from '../confirm';
import { sample } from '../live';
import { useLoad } from '../load';
import { go, link, param, refine, route } from '../route';
import { Badge, Copy, Empty, Fault, Panel, Scroll } from '../ui';
import { clock, count, many, units } from '../words';
import { Steps } from './orders_way';

const statuses = ['accepted', 'held', 'pending_payment', 'confirmed', 'paid', 'cancelled', 'expired', 'rejected'];
const isID = (s: string) => /^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(s);

export function Orders() {
  const id = route.value.id;
  return (
    <>
      <div class="title"><h1>Orders</h1></div>
      <Search />
      <div class={id ? 'grid even' : 'grid'}>
        <List />
        {id && <One id={id} key={id} />}
      </div>
    </>
  );
}

function Search() {
  const [text, setText] = useState(param('user') || route.value.id);
  useEffect(() => { setText(param('user') || route.value.id); }, [param('user'), route.value.id]);
  const submit = (e: Event) => {
    e.preventDefault();
    const t = text.trim();
    if (isID(t)) go(link('orders', t.toLowerCase()));
    else refine({ user: t || undefined, after: undefined }, '');
  };
  return (
    <form class="panel filters" role="search" onSubmit={submit}>
      <label class="grow"><span>Order id or buyer</span><input data-search type="search" name="q" value={text} placeholder="01997c…, or the buyer's id as the shop sends it" onInput={(e) => setText(e.currentTarget.value)} /></label>
      <label><span>Sale</span><SalePick value={param('activity')} all pick={(activity) => refine({ activity, after: undefined }, '')} /></label>
      <label><span>Status</span>
        <select name="status" value={param('status')} onChange={(e) => refine({ status: e.currentTarget.value, after: undefined }, '')}>
          <option value="">any</option>
          {statuses.map((s) => <option key={s} value={s}>{s.replaceAll('_', ' ')}</option>)}
        </select>
      </label>
      <button type="submit" class="primary">Search</button>
    </form>
  );
}

export function SalePick({ value, all, pick }: { value: string; all?: boolean; pick: (activity: string) => void }) {
  const known = sample.value?.activities?.map((a) => a.activity) ?? [];
  return (
    <select name="activity" value={value} onChange={(e) => pick(e.currentTarget.value)}>
      {all && <option value="">all sales</option>}
      {[...new Set([...known, ...(value ? [value] : [])])].map((a) => <option key={a} value={a}>{a}</option>)}
    </select>
  );
}

function List() {
  const q = { activity: param('activity'), user: param('user'), status: param('status'), after: param('after') };
  // Without any filter the newest orders of the newest sale are shown.
  const activity = q.activity || (q.user ? '' : sample.value?.activities?.[0]?.activity ?? '');
  const asked = activity || q.user;
  const found = useLoad(async (): ReturnType<typeof findOrders> => (asked ? findOrders({ ...q, activity, limit: 50 }) : { orders: [] }), [activity, q.user, q.status, q.after]);
  const orders = found.value?.orders ?? [];
  const note = [activity && `sale ${activity}`, q.user && `buyer ${q.user}`, q.status && q.status.replaceAll('_', ' '), found.at > 0 && `read ${clock(new Date(found.at).toISOString())}`].filter(Boolean).join(' · ');
  return (
    <Panel title={found.value ? many(orders.length, 'order') + (found.value.next ? ' on this page' : '') : 'Orders'} note={note}
      actions={<button type="button" class="small" onClick={found.again} disabled={found.busy}>Read again</button>}>
      {found.error && <Fault error={found.error} retry={found.again} />}
      {found.value && orders.length === 0 && <Empty title="No order matches">{asked ? 'Look for another status, sale or buyer.' : 'There is no sale yet.'}</Empty>}
      {orders.length > 0 && <Table orders={orders} />}
      <div class="actions">
        {q.after && <button type="button" class="small" onClick={() => history.back()}>Back</button>}
        {found.value?.next && <button type="button" class="small" onClick={() => go(link('orders', route.value.id, { ...q, after: found.value!.next }))}>Next page</button>}
      </div>
    </Panel>
  );
}

function Table({ orders }: { orders: Order[] }) {
  const query = Object.fromEntries(route.value.query);
  return (
    <Scroll label="Orders">
      <table>
        <thead><tr><th>Order</th><th>Buyer</th><th>Status</th><th>SKU</th><th class="num">Units</th><th class="num">Amount</th><th>Reserved</th></tr></thead>
        <tbody>{orders.map((o) => (
          <tr key={o.order_id} data-row class={o.order_id === route.value.id ? 'selected' : ''}>
            <td><a href={link('orders', o.order_id, query)} aria-current={o.order_id === route.value.id ? 'true' : undefined}><code>{`${o.order_id.slice(0, 8)}…${o.order_id.slice(-4)}`}</code></a></td>
            <td><a href={link('orders', '', { user: o.user })}>{o.user}</a></td>
            <td><Badge state={o.status} />{o.reason && <span class="quiet"> {o.reason}</span>}</td>
            <td>{o.sku}</td><td class="num">{count(o.quantity)}</td><td class="num">{count(o.amount)}</td><td>{clock(o.created_at)}</td>
          </tr>
        ))}</tbody>
      </table>
    </Scroll>
  );
}

function One({ id }: { id: string }) {
  const way = useLoad(() => orderWay(id), [id]);
  const close = link('orders', '', Object.fromEntries(route.value.query));
  return (
    <Panel title="One order's way" actions={<>
      <button type="button" class="small" onClick={way.again} disabled={way.busy}>Read again</button><a class="button small" href={close}>Close</a>
    </>}>
      {way.error && <Fault error={way.error} retry={way.again} />}
      {way.value && <Detail way={way.value} again={way.again} />}
      {!way.value && !way.error && <p role="status">Reading …</p>}
    </Panel>
  );
}

const cancellable = ['accepted', 'held', 'pending_payment', 'confirmed', 'paid'];

function Detail({ way, again }: { way: Way; again: () => void }) {
  const o = way.order;
  return (
    <>
      <div class="title"><Copy text={o.order_id} /><Badge state={o.status} />{o.reason && <span class="quiet">{o.reason}</span>}</div>
      <Steps way={way} />
      <dl class="list">
        <dt>Buyer</dt><dd><a href={link('orders', '', { user: o.user })}>{o.user}</a></dd>
        <dt>Bought</dt><dd>{units(o.quantity)} of {o.sku} in <a href={link('live', o.activity)}>{o.activity}</a>, amount {count(o.amount)}</dd>
        {o.pay_before && <><dt>To be paid</dt><dd>before {clock(o.pay_before)}</dd></>}
        {o.refund && <><dt>Refund</dt><dd>{o.refund}</dd></>}
        {o.replaced_by && <><dt>Replaced by</dt><dd><a href={link('orders', o.replaced_by)}>{o.replaced_by}</a></dd></>}
        {way.replaces && <><dt>Replaces</dt><dd><a href={link('orders', way.replaces)}>{way.replaces}</a></dd></>}
        <dt>At the gate</dt><dd>{way.gate}</dd>
        {way.ledger && <><dt>In the ledger</dt><dd>message {count(way.ledger.log_seq)}, partition {way.ledger.partition}, term {way.ledger.term}, epoch {way.ledger.epoch}{way.ledger.key && <>, key <code>{way.ledger.key}</code></>}</dd></>}
      </dl>
      <div class="actions">
        {o.status === 'held' && <a class="button" href={link('dead', '', { activity: o.activity })}>To the dead letters</a>}
        {mayChange() && cancellable.includes(o.status) && <button type="button" class="warns" onClick={() => cancel(o, again)}>Cancel …</button>}
      </div>
    </>
  );
}

const cancel = (o: Order, again: () => void) => ask({
  title: `Cancel the order of ${o.user}: ${units(o.quantity)} of ${o.sku} can be sold again`,
  detail: o.status === 'paid' ? 'It is paid: the order is marked for a refund, which the shop pays out.' : 'The buyer sees the order as cancelled at once.',
  verb: 'Cancel the order', danger: true, reason: 'required',
  run: async ({ reason }) => {
    const now = await cancelOrder(o.order_id, reason, o.status === 'paid');
    again();
    return `The order is ${now.status}.`;
  },
});
