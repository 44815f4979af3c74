import * as api from './api.js';
import * as words from './words.js';
import { Card, pause, setText } from './card.js';

const part = (id) => document.getElementById(id);
const currency = new URLSearchParams(location.search).get('currency');
const date = new Intl.DateTimeFormat(undefined, { weekday: 'short', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' });
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short' });
const cards = new Map();
let sale = null;
let etag = null;
let trouble = '';

function show() {
  const t = api.now();
  const soon = sale && sale.state !== 'closed' && t < Date.parse(sale.starts_at);
  setText(part('state'), trouble || sale && !soon && words.ofSale(sale, t) || '');
  if (!sale) return;
  const title = sale.title || sale.activity;
  setText(part('title'), title);
  const starts = Date.parse(sale.starts_at);
  const ends = Date.parse(sale.ends_at);
  setText(part('when'), soon ? `Starts ${date.format(starts)}` : ends ? `${t < ends ? 'Ends' : 'Ended'} ${date.format(ends)}` : '');
  part('countdown').hidden = !soon;
  setText(part('left'), soon ? words.left(starts - t) : '');
  setText(part('clock'), `Time of the shop: ${clock.format(t)}`);
  for (const sku of sale.skus) card(sku).update(sku, sale);
  const yours = [...cards.values()].find((c) => c.units);
  const left = soon ? words.left(starts - t) : '';
  document.title = (yours ? `${yours.news()[1]} · ` : left ? `${left} · ` : '') + title;
}

function card(sku) {
  if (!cards.has(sku.sku)) {
    cards.set(sku.sku, new Card(sku, currency));
    part('skus').append(cards.get(sku.sku).root);
  }
  return cards.get(sku.sku);
}

// refresh reads the sale, often while it counts, seldom while nothing can happen.
async function refresh() {
  for (let n = 0; ; n++) {
    if (!document.hidden) {
      const r = await api.readSale(n % 15 ? etag : null); // now and then whole: the clock
      if (r.status === 200) {
        sale = r.body;
        etag = r.etag;
        trouble = '';
      } else if (r.status === 304) {
        trouble = '';
      } else {
        trouble = { 0: 'No connection. Trying again …', 404: 'There is no such sale.' }[r.status] || 'The sale is being prepared. One moment …';
      }
      show();
    }
    await pause(interval() * (0.8 + 0.4 * Math.random()));
  }
}

function interval() {
  if (!sale) return 2000;
  const wait = Date.parse(sale.starts_at) - api.now();
  if (wait > 60_000) return 10_000;
  return sale.state === 'closed' ? 30_000 : 1500;
}

// What the buyer has from before is shown again.
async function restore() {
  const r = await api.readOrders();
  for (const order of (r.status === 200 && r.body.orders || []).reverse()) cards.get(order.sku)?.keep(order);
  show();
}

// Between the readings the clock runs here, and the button wakes on time.
function tick() {
  show();
  setTimeout(tick, 1000 - (api.now() % 1000) + 5);
}

refresh();
while (!sale) await pause(100);
await restore();
tick();
