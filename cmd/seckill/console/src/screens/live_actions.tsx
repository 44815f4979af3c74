// What can be done to a sale. Each question says what it will do, in units.
import { changeStock, moveSale } from '../api';
import type { SKU, Sale } from '../api';
import { ask } from '../confirm';
import { clock, count, signed, units } from '../words';
import { sumOf } from './live_equation';

const leftOf = (a: Sale) => sumOf(a).gate ?? a.skus.reduce((n, s) => n + s.stock, 0);

export function SaleActions({ sale }: { sale: Sale }) {
  return (
    <div class="actions">
      {sale.state === 'draft' && <button type="button" class="primary" onClick={() => openSale(sale)}>Open …</button>}
      {sale.state === 'open' && <button type="button" onClick={() => pauseSale(sale)}>Pause …</button>}
      {sale.state === 'paused' && <button type="button" class="primary" onClick={() => resumeSale(sale)}>Resume …</button>}
      {sale.state !== 'closed' && <button type="button" class="warns" onClick={() => closeSale(sale)}>Close …</button>}
    </div>
  );
}

const openSale = (a: Sale) => ask({
  title: `Open ${a.activity}: ${units(sumOf(a).total)} go on sale${a.starts_at ? ` at ${clock(a.starts_at)}` : ' now'}`,
  verb: 'Open the sale', reason: 'optional',
  run: async ({ reason }) => { await moveSale(a.activity, 'open', reason); return `${a.activity} is open.`; },
});

const pauseSale = (a: Sale) => ask({
  title: `Pause ${a.activity}: ${units(leftOf(a))} cannot be bought until you resume`,
  detail: 'Buyers are told to wait. Orders already accepted are settled.', verb: 'Pause the sale', reason: 'required',
  run: async ({ reason }) => { await moveSale(a.activity, 'pause', reason); return `${a.activity} is paused.`; },
});

const resumeSale = (a: Sale) => ask({
  title: `Resume ${a.activity}: ${units(leftOf(a))} can be bought again`,
  verb: 'Resume the sale', reason: 'optional',
  run: async ({ reason }) => { await moveSale(a.activity, 'resume', reason); return `${a.activity} sells again.`; },
});

const closeSale = (a: Sale) => ask({
  title: `Close ${a.activity}: ${units(leftOf(a))} will no longer be sold`,
  detail: 'A closed sale is never opened again, and its id is not used again. Orders already accepted are settled.',
  verb: 'Close for good', danger: true, reason: 'required',
  run: async ({ reason }) => { await moveSale(a.activity, 'close', reason); return `${a.activity} is closed.`; },
});

export const stockOf = (a: Sale, s: SKU) => ask({
  title: `Change the stock of ${s.sku} in ${a.activity}`,
  detail: `${units(s.total)} in all, of which ${count(s.live)} are sold. Units are taken only from those that nobody has.`,
  verb: 'Change the stock', reason: 'required',
  number: {
    label: 'Units to add, or with a minus to take away', ok: (n) => Number.isInteger(n) && n !== 0 && Math.abs(n) <= 1_000_000_000,
    hint: (n) => (Number.isNaN(n) || n === 0 ? `${count(s.total)} now. For example: +10` : `Total of ${s.sku}: ${count(s.total)} → ${count(s.total + n)}; ${n > 0 ? `${units(n)} more can be bought` : `${units(-n)} will no longer be sold`}.`),
  },
  run: async ({ number, reason, key }) => {
    await changeStock(a.activity, s.sku, number, reason, key);
    return `${signed(number)} units of ${s.sku} in ${a.activity}.`;
  },
});
