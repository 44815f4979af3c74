// What the page says in each state: [kind, what, why].

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

// left writes a time in ms as 1 d 02:03:04, or 02:03.
export function left(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const two = (n) => String(Math.floor(n)).padStart(2, '0');
  const days = Math.floor(s / 86400);
  const hours = (s % 86400) / 3600;
  return (days ? `${days} d ` : '') + (s >= 3600 ? `${two(hours)}:` : '') + `${two((s % 3600) / 60)}:${two(s % 60)}`;
}

export function ofOrder(order, now) {
  switch (order.status) {
    case 'accepted': return ['wait', 'In line', 'We have your order and decide it now. It is kept, also if you close this page.'];
    case 'held': return ['wait', 'Being checked', 'We have your order. A person has to look at it before it is decided.'];
    case 'pending_payment': {
      const end = Date.parse(order.pay_before);
      if (now >= end) return ['wait', 'The time to pay is over', 'Waiting for the last word on your order.'];
      return ['good', 'Reserved for you', `Pay in the shop before ${clock.format(end)}. Time left: ${left(end - now)}`];
    }
    case 'confirmed': return ['good', 'It is yours', 'Your order is confirmed.'];
    case 'paid': return ['good', 'It is yours', 'Your order is paid.'];
    case 'cancelled': return ['', 'Cancelled', `Your order was cancelled.${order.refund ? ' Your money goes back to you.' : ''}`];
    case 'expired':
      if (order.replaced_by) return ['good', 'A new order', 'Your payment came after the end of your order, and bought you a new one.'];
      if (order.refund) return ['bad', 'Your money goes back', 'Your payment came after the end of your order, and nothing was left to buy. You get it back.'];
      return ['bad', 'Not paid in time', 'Your order has ended, and what it held went back on sale. If you have paid all the same, wait: you get a new order, or your money back.'];
  }
  const why = { 'sold-out': 'Nothing was left for your order.', 'limit-reached': 'You already have as many as one buyer may.' };
  return ['bad', 'Not yours', `${why[order.reason] || 'Your order could not be kept.'} You owe nothing.`];
}

const busy = ['wait', 'Very busy', 'Nothing was ordered. Ask again in a moment.'];
const unsure = ['wait', 'Not sure yet', 'Your order may have come through. Ask again: you get the same order, never a second one.'];
const broken = ['bad', 'That did not work', 'Nothing was ordered.'];
const refusals = {
  'sold-out': ['bad', 'Sold out', 'Somebody was faster. If units come back, you can ask again.'],
  'limit-reached': ['', 'You have yours', 'You already have as many as one buyer may.'],
  'not-started': ['', 'Not yet', 'The sale has not started. Nothing was ordered.'],
  'ended': ['', 'The sale is over', 'Nothing was ordered.'],
  'paused': ['wait', 'Paused', 'The sale is paused. Nothing was ordered.'],
  'not-ready': ['wait', 'One moment', 'The sale is being prepared. Nothing was ordered. Ask again in a moment.'],
  'overloaded': busy,
  'rate-limited': ['wait', 'Too many tries', 'You, or somebody in your network, asked too often. Nothing was ordered. Wait a moment.'],
  'outcome-unknown': unsure,
  'unauthenticated': ['bad', 'Sign in first', 'We do not know who you are. Sign in to the shop and come back.'],
  'ticket-required': ['bad', 'You need a ticket', 'This sale takes buyers with an entry ticket. Get one in the shop, and come back by its link.'],
  'ticket-invalid': ['bad', 'Your ticket is not valid', 'It is for another buyer, sale or time. Nothing was ordered. Get a new one in the shop.'],
  'denied': ['bad', 'Not possible for you', 'The shop takes no orders from you, or from your network. Nothing was ordered. Ask the shop why.'],
};

// isUnsure says whether an order may have been placed all the same: no answer, or one
// of something that fails and is not known to have ordered nothing.
export const isUnsure = ({ code, status }) => code === 'outcome-unknown' || status === 0 || status >= 500 && !refusals[code];

export const ofRefusal = (r) => isUnsure(r) ? unsure : refusals[r.code] || (r.status === 429 ? busy : broken);

// ofSale says where the sale stands; empty while it sells.
export function ofSale(sale, now) {
  if (sale.state === 'closed' || sale.ends_at && now >= Date.parse(sale.ends_at)) return 'The sale is over.';
  if (sale.state === 'paused') return 'The sale is paused. It goes on here by itself.';
  if (sale.starts_at && now < Date.parse(sale.starts_at)) return 'The sale has not started.';
  if (sale.state === 'draft') return 'The sale has not been opened yet.';
  return '';
}
