import { mayChange } from '../api';
import type { SKU, Sale } from '../api';
import { Badge, Empty, Panel, Scroll } from '../ui';
import { count, signed } from '../words';
import { stockOf } from './live_actions';
import { sumOf } from './live_equation';

export function SKUTable({ sale }: { sale: Sale }) {
  if (sale.skus.length === 0) return <Empty title="This sale has no SKU">Give it some: seckill activity apply -f FILE</Empty>;
  const n = sumOf(sale);
  const change = mayChange() && sale.state !== 'closed' && sale.state !== 'draft';
  return (
    <Panel title="By SKU">
      <Scroll label="Stock by SKU">
        <table>
          <thead><tr>
            <th>SKU</th><th class="num">Total</th><th class="num">Sold</th><th class="num">In flight</th><th class="num">Held</th><th class="num">Coming back</th>
            <th class="num">At the gate</th><th class="num">Difference</th><th class="num">Limit per buyer</th><th class="num">Price <span class="quiet">smallest unit</span></th>{change && <th><span class="visually-hidden">Change</span></th>}
          </tr></thead>
          <tbody>{sale.skus.map((s) => <Row key={s.sku} sale={sale} s={s} change={change} />)}</tbody>
          {sale.skus.length > 1 && (
            <tfoot><tr>
              <th scope="row">All</th><td class="num">{count(n.total)}</td><td class="num">{count(n.live)}</td><td class="num">{count(n.undecided)}</td><td class="num">{count(n.held)}</td>
              <td class="num">{count(n.back)}</td><td class="num">{count(n.gate)}</td><td class="num">{n.gate === null ? '–' : n.difference === 0 ? '0' : signed(n.difference)}</td><td /><td />{change && <td />}
            </tr></tfoot>
          )}
        </table>
      </Scroll>
    </Panel>
  );
}

function Row({ sale, s, change }: { sale: Sale; s: SKU; change: boolean }) {
  return (
    <tr data-row data-sku={s.sku}>
      <th scope="row">{s.sku} {s.gate_stock !== null && s.gate_stock <= 0 && sale.state === 'open' && <Badge tone="info">sold out</Badge>}</th>
      <td class="num">{count(s.total)}</td>
      <td class="num">{count(s.live)}{s.total > 0 && <span class="quiet"> {Math.floor((100 * s.live) / s.total)}%</span>}</td>
      <td class="num">{count(s.undecided)}</td><td class="num">{count(s.held)}</td><td class="num">{count(s.release_due)}</td><td class="num">{count(s.gate_stock)}</td>
      <td class="num">{s.gate_stock === null ? '–' : s.difference === 0 ? '0' : <Badge tone={sale.exact ? 'bad' : 'plain'}>{signed(s.difference)}</Badge>}</td>
      <td class="num">{count(s.limit_per_user)}</td><td class="num">{count(s.price)}</td>
      {change && <td class="num act"><button type="button" class="small" onClick={() => stockOf(sale, s)}>Stock …<span class="visually-hidden"> of {s.sku}</span></button></td>}
    </tr>
  );
}
