import * as api from './api.js';
import * as words from './words.js';

const mostClicks = 3; // in a row, then a pause
const pauseMs = 10_000;
const isLive = (o) => ['pending_payment', 'confirmed', 'paid'].includes(o.status);
const isOpen = (o) => o.status === 'accepted' || o.status === 'held';
const unsure = (r) => r && words.isUnsure(r);
const lateMs = 300_000; // for so long after its end, a payment of an order is looked out for
const payable = (o) => o.status === 'pending_payment' || o.status === 'expired' && !o.refund && !o.replaced_by && api.now() < Date.parse(o.pay_before) + lateMs;

// Card is one SKU: the buyer's orders of it, and the button.
export class Card {
  constructor(sku, currency) {
    this.sku = sku;
    this.money = currency && new Intl.NumberFormat(undefined, { style: 'currency', currency });
    this.orders = new Map(); // by id, newest last
    this.refusal = null; // the last answer without an order
    this.clicks = 0; // in a row, without an order
    this.after = 0; // server time before which the button rests
    this.asking = false;
    this.root = document.getElementById('card').content.firstElementChild.cloneNode(true);
    this.part = (name) => this.root.querySelector(`.${name}`);
    this.button = this.part('buy');
    this.button.addEventListener('click', () => this.buy());
    this.select = this.root.querySelector('select');
    this.part('name').textContent = sku.sku;
    this.select.replaceChildren(...Array.from({ length: Math.min(sku.limit_per_user, 10) }, (_, i) => new Option(i + 1)));
  }

  // order is the one to speak of: the newest that the buyer has, else one whose money goes
  // back, which says more than that a later one came to nothing.
  get order() {
    const all = [...this.orders.values()];
    return all.findLast((o) => isLive(o) || isOpen(o)) || all.findLast((o) => o.refund) || all.pop();
  }
  get units() { return [...this.orders.values()].filter((o) => isLive(o) || isOpen(o)).reduce((n, o) => n + o.quantity, 0); }

  // about is what is to be known beside the words on the order.
  about() {
    if (!this.order) return '';
    const { order_id: id, quantity } = this.order;
    const others = [...this.orders.values()].filter((o) => o.order_id !== id);
    const facts = [`Order ${id}`];
    if (quantity > 1) facts.push(`${quantity} units`);
    if (others.some((o) => o.replaced_by === id)) facts.push('in place of one that was paid late');
    for (const o of others.filter((o) => o.refund)) facts.push(`money of order ${o.order_id} goes back`);
    return facts.join(' · ');
  }

  // keep notes what is known of an order, and follows it while something is to come, and
  // to the order that replaces it.
  keep(order) {
    const known = this.orders.has(order.order_id);
    this.orders.set(order.order_id, order);
    if (!known) this.follow(order.order_id);
  }

  async follow(id) {
    for (let order = this.orders.get(id); isOpen(order) || payable(order); order = this.orders.get(id)) {
      const r = order.status === 'accepted' ? await api.awaitOrder(id) : await pause(order.status === 'expired' ? 10_000 : 3000).then(() => api.readOrder(id));
      if (r.status === 200) this.orders.set(id, r.body);
      else if (r.status === 404 || r.status === 401) return;
      else await pause(1000 * (r.retryAfter || 2) * (1 + Math.random()));
      this.render();
    }
    const next = this.orders.get(id).replaced_by;
    const r = next && !this.orders.has(next) && await api.readOrder(next);
    if (r && r.status === 200) this.keep(r.body);
    this.render();
  }

  // One key an order: asking again under it gives the same order. It is kept until
  // there is one, also over a reload of the page.
  key() {
    const name = `seckill.key.${api.activity}.${this.sku.sku}.${this.quantity}`;
    if (!sessionStorage.getItem(name)) sessionStorage.setItem(name, api.newKey());
    return { value: sessionStorage.getItem(name), used: () => sessionStorage.removeItem(name) };
  }

  get quantity() { return Number(this.select.value) || 1; }

  async buy() {
    this.clicks++;
    this.asking = true;
    this.render();
    const key = this.key();
    const r = await api.place(this.sku.sku, this.quantity, key.value);
    this.asking = false;
    if (r.status === 202 || r.status === 200) {
      key.used();
      this.refusal = null;
      this.clicks = 0;
      this.keep(r.body);
    } else {
      await this.refused(r);
    }
    this.render();
  }

  async refused(r) {
    this.refusal = r;
    this.after = api.now() + 1000 * r.retryAfter;
    if (this.clicks >= mostClicks) {
      this.clicks = 0;
      this.after = Math.max(this.after, api.now() + pauseMs);
    }
    for (const id of r.code === 'limit-reached' && r.body.orders || []) {
      const known = await api.readOrder(id);
      if (known.status === 200) this.keep(known.body);
    }
  }

  update(sku, sale) {
    this.sku = sku;
    this.sale = sale;
    this.render();
  }

  // news is what the buyer is to know: of the newest order, else of the last refusal.
  news() {
    if (this.asking) return ['wait', 'Asking …', 'Your request is on its way.'];
    if (this.refusal && !(this.refusal.code === 'limit-reached' && this.order)) return words.ofRefusal(this.refusal);
    if (this.order) return words.ofOrder(this.order, api.now());
    if (this.sku.sold_out && !words.ofSale(this.sale, api.now())) return ['', 'Sold out', 'If units come back, you see it here.'];
    return ['', '', ''];
  }

  // offer is the button's words, and whether it can be pressed; null: no button.
  offer() {
    const t = api.now();
    const closed = words.ofSale(this.sale, t);
    if (this.asking) return ['Asking …', false];
    if (unsure(this.refusal) && this.after <= t) return ['Ask again', true];
    if (this.units && (this.units >= this.sku.limit_per_user || closed || this.sku.sold_out)) return null;
    if (closed && this.sale.starts_at && t < Date.parse(this.sale.starts_at)) return ['Not started', false];
    if (closed) return ['Not on sale', false];
    if (this.after > t) return [`Next try in ${Math.ceil((this.after - t) / 1000)} s`, false];
    if (this.sku.sold_out) return ['Sold out', false];
    if (this.units) return ['Buy more', true];
    return [this.order || this.refusal ? 'Try again' : 'Buy now', true];
  }

  render() {
    if (!this.sale) return;
    const [kind, what, why] = this.news();
    const offer = this.offer();
    const news = this.part('news');
    news.className = `news ${what ? kind : 'empty'}`;
    setText(this.part('what'), what);
    setText(this.part('why'), why);
    setText(this.part('price'), this.money ? this.money.format(this.sku.price / 10 ** this.money.resolvedOptions().maximumFractionDigits) : '');
    setText(this.part('stock'), `${this.sku.sold_out ? 'None' : this.sku.remaining.toLocaleString()} left · at most ${this.sku.limit_per_user.toLocaleString()} for each buyer`);
    setText(this.part('order'), this.about());
    this.root.querySelector('.quantity').hidden = !offer || this.sku.limit_per_user < 2;
    this.select.disabled = this.asking || unsure(this.refusal); // the same question again
    this.button.hidden = !offer;
    if (offer) setText(this.button, offer[0]);
    this.button.disabled = !offer || !offer[1];
    this.root.dataset.state = this.asking ? 'asking' : this.order && !this.refusal ? this.order.status : this.refusal ? this.refusal.code : '';
  }
}

// setText leaves what is the same alone, so that a screen reader does not read it again.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));
