// The sale as it happens: does the stock add up, who asks, how fast is the answer.
import { mayChange } from '../api';
import type { Sale } from '../api';
import { attention, broken } from '../attention';
import { history, sample, serverNow } from '../live';
import { go, link, route } from '../route';
import { Badge, Empty, Panel, Scroll } from '../ui';
import { clock, count, span } from '../words';
import { Equation, sumOf } from './live_equation';
import { Funnel, Latency } from './live_rates';
import { SaleActions } from './live_actions';
import { SKUTable } from './live_skus';

export function Live() {
  const s = sample.value;
  if (!s) return <><h1>Live sale</h1><p role="status">Waiting for the first sample …</p></>;
  const sales = s.activities;
  if (!sales) return <><h1>Live sale</h1><Empty title="The ledger could not be read">{s.errors?.map((e) => e.error).join('; ')}</Empty></>;
  const sale = sales.find((a) => a.activity === route.value.id) ?? (route.value.id ? null : foremost(sales));
  return (
    <>
      <Title sale={sale} sales={sales} />
      <Attentions />
      {sale ? <One sale={sale} /> : <NoSale />}
      {sales.length > 1 && <AllSales sales={sales} />}
    </>
  );
}

// foremost is the sale shown when none is named: a running one, else the next.
const rank = ['open', 'paused', 'draft', 'closed'];
const foremost = (sales: Sale[]): Sale | undefined => [...sales].sort((a, b) => rank.indexOf(a.state) - rank.indexOf(b.state))[0];

function One({ sale }: { sale: Sale }) {
  return (
    <>
      <Equation sale={sale} />
      <div class="grid two"><Funnel /><Latency /></div>
      <SKUTable sale={sale} />
    </>
  );
}

function Title({ sale, sales }: { sale?: Sale | null; sales: Sale[] }) {
  return (
    <div class="title">
      <h1>{sale ? sale.title || sale.activity : 'Live sale'}</h1>
      {sale && <StateBadge sale={sale} />}
      {sales.length > 1 && (
        <label><span class="visually-hidden">Sale</span>
          <select data-search value={sale?.activity} onChange={(e) => go(link('live', e.currentTarget.value))}>
            {sales.map((a) => <option key={a.activity} value={a.activity}>{a.activity} · {stateOf(a)}</option>)}
          </select>
        </label>
      )}
      {sale && <span class="quiet">{windowOf(sale)}</span>}
      {sale && mayChange() && <SaleActions sale={sale} />}
    </div>
  );
}

export const StateBadge = ({ sale }: { sale: Sale }) => <Badge state={stateOf(sale)} />;

// stateOf is one word for what buyers meet.
export function stateOf(a: Sale): string {
  if (a.state !== 'open') return a.state;
  const t = serverNow();
  if (a.starts_at && t < Date.parse(a.starts_at)) return 'scheduled';
  if (a.ends_at && t >= Date.parse(a.ends_at)) return 'ended';
  return a.skus.length > 0 && a.skus.every((s) => s.gate_stock !== null && s.gate_stock <= 0) ? 'sold out' : 'live';
}

function windowOf(a: Sale) {
  const t = serverNow() / 1000;
  const starts = a.starts_at ? Date.parse(a.starts_at) / 1000 : null;
  const ends = a.ends_at ? Date.parse(a.ends_at) / 1000 : null;
  const parts = [a.activity];
  if (starts && t < starts) parts.push(`starts in ${span(starts - t)} (${clock(a.starts_at)})`);
  else if (starts) parts.push(`since ${clock(a.starts_at)}`);
  if (ends && t < ends) parts.push(`ends in ${span(ends - t)}`);
  else if (ends) parts.push(`ended ${clock(a.ends_at)}`);
  const out = a.state === 'open' ? soldOutIn(a) : null;
  if (out !== null) parts.push(`sold out in about ${span(out)} at this pace`);
  return parts.join(' · ');
}

// soldOutIn is how many seconds the gate's units last at the pace of the last ten.
function soldOutIn(a: Sale): number | null {
  const left = sumOf(a).gate;
  const then = history.value.at(-11)?.sample.activities?.find((x) => x.activity === a.activity);
  const past = history.value.at(-11)?.t;
  const here = history.value.at(-1)?.t;
  if (!then || !past || !here || left === null || left <= 0) return null;
  const pace = ((sumOf(then).gate ?? left) - left) / (here - past);
  return pace > 0 ? left / pace : null;
}

function Attentions() {
  const found = attention.value;
  if (found.length === 0) return null;
  return (
    <ul class="attentions" aria-label="To look at">
      {found.map((a) => (
        <li key={a.what} class={a.tone}><a href={link(a.screen, a.id)}>{a.what}</a><span>{a.next}</span></li>
      ))}
    </ul>
  );
}

function NoSale() {
  return route.value.id
    ? <Empty title={`There is no sale ${route.value.id}`}><a href={link('live')}>Show the sale that runs</a></Empty>
    : <Empty title="There is no sale yet">Write one to a file and: <code>seckill activity apply -f sale.yaml</code>; then open it here.</Empty>;
}

function AllSales({ sales }: { sales: Sale[] }) {
  return (
    <Panel title="All sales">
      <Scroll label="All sales">
        <table>
          <thead><tr><th>Sale</th><th>State</th><th class="num">Total</th><th class="num">Sold</th><th class="num">In flight</th><th class="num">At the gate</th><th>Stock</th></tr></thead>
          <tbody>{sales.map((a) => {
            const n = sumOf(a);
            return (
              <tr key={a.activity} data-row>
                <th scope="row"><a href={link('live', a.activity)}>{a.title || a.activity}</a></th>
                <td><StateBadge sale={a} /></td>
                <td class="num">{count(n.total)}</td><td class="num">{count(n.live)}</td><td class="num">{count(n.undecided)}</td><td class="num">{count(n.gate)}</td>
                <td>{broken(a) ? <Badge tone="bad">does not add up</Badge> : n.gate === null ? <span class="quiet">no gate</span> : <span class="quiet">{a.exact ? 'adds up' : 'moving'}</span>}</td>
              </tr>
            );
          })}</tbody>
        </table>
      </Scroll>
    </Panel>
  );
}
