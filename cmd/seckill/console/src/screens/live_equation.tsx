// Total = sold + in flight + coming back + at the gate, before one's eyes.
import type { Sale } from '../api';
import { Badge, Panel } from '../ui';
import { count, signed } from '../words';

export type Sum = { total: number; live: number; undecided: number; back: number; gate: number | null; difference: number; held: number };

export function sumOf(a: Sale): Sum {
  const n: Sum = { total: 0, live: 0, undecided: 0, back: 0, gate: 0, difference: 0, held: 0 };
  for (const s of a.skus) {
    n.total += s.total;
    n.live += s.live;
    n.undecided += s.undecided;
    n.back += s.release_due;
    n.difference += s.difference;
    n.held += s.held;
    n.gate = n.gate === null || s.gate_stock === null ? null : n.gate + s.gate_stock;
  }
  return n;
}

const terms = [
  ['live', 'Sold', 'in live orders of the ledger'],
  ['undecided', 'In flight', 'reserved, not decided yet'],
  ['back', 'Coming back', 'given up in the ledger, on the way to the gate'],
  ['gate', 'At the gate', 'can be bought now'],
] as const;
const tones = { live: 'live', undecided: 'flight', back: 'back', gate: 'gate' };

export function Equation({ sale }: { sale: Sale }) {
  const n = sumOf(sale);
  return (
    <Panel title="Stock" note="units, read from the ledger and the gate">
      <div class="equation" data-equation={sale.activity}>
        <div class="sum">
          <div class="term"><b data-term="total">{count(n.total)}</b><span class="label">Total</span></div>
          {terms.map(([key, label, meaning], i) => (
            <div class="term" key={key} title={meaning}>
              <span class="sign" aria-hidden="true">{i === 0 ? '=' : '+'}</span>
              <b data-term={key}>{count(n[key])}</b>
              <span class="label"><i class={`tone-${tones[key]}`} />{label}{key === 'undecided' && n.held > 0 && ` (${count(n.held)} held)`}</span>
            </div>
          ))}
          <Verdict sale={sale} n={n} />
        </div>
        <div class="bar" aria-hidden="true">
          {terms.map(([key]) => <i key={key} class={`tone-${tones[key]}`} style={{ flexGrow: Math.max(0, n[key] ?? 0) }} />)}
        </div>
      </div>
    </Panel>
  );
}

function Verdict({ sale, n }: { sale: Sale; n: Sum }) {
  if (n.gate === null) {
    return <div class="verdict"><Badge tone="plain">{sale.state === 'draft' ? 'not opened' : 'no gate'}</Badge><small class="quiet">nothing can be bought</small></div>;
  }
  if (sale.exact) {
    const odd = sale.skus.some((s) => s.difference !== 0);
    return odd
      ? <div class="verdict"><Badge tone="bad">✗ {signed(n.difference)} not accounted for</Badge><small class="quiet">nothing moved: run an audit</small></div>
      : <div class="verdict"><Badge tone="good">✓ Adds up</Badge><small class="quiet">nothing moved while it was read</small></div>;
  }
  return n.difference === 0
    ? <div class="verdict"><Badge tone="good">✓ Adds up</Badge><small class="quiet">read while orders move</small></div>
    : <div class="verdict"><Badge tone="plain">{signed(n.difference)} in motion</Badge><small class="quiet">orders moved between two reads</small></div>;
}
