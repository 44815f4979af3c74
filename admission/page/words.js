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
    case 'cancelled': return ['', 'Cancelled', 'Your order was cancelled.'];
    case 'expired': return ['bad', 'Not paid in time', 'Your order has ended, and what it held went back on sale.'];
  }
  const why = { 'sold-out': 'Nothing was left for your order.', 'limit-reached': 'You already have as many as one buyer may.' };
  return ['bad', 'Not yours', `${why[order.reason] || 'Your order could not be kept.'} You owe nothing.`];
}

const refusals = {
  'sold-out': ['bad', 'Sold out', 'Somebody was faster. If units come back, you can ask again.'],
  'limit-reached': ['', 'You have yours', 'You already have as many as one buyer may.'],
  'not-started': ['', 'Not yet', 'The sale has not started. Nothing was ordered.'],
  'ended': ['', 'The sale is over', 'Nothing was ordered.'],
  'paused': ['wait', 'Paused', 'The sale is paused. Nothing was ordered.'],
  'unauthenticated': ['bad', 'Sign in first', 'We do not know who you are. Sign in to the shop and come back.'],
  'outcome-unknown': ['wait', 'Not sure yet', 'Your order may have come through. Ask again: you get the same order, never a second one.'],
};
refusals['offline'] = refusals['outcome-unknown'];
const busy = ['wait', 'Very busy', 'Nothing was ordered. Ask again in a moment.'];
const broken = ['bad', 'That did not work', 'Nothing was ordered.'];

export const ofRefusal = ({ code, status }) => refusals[code] || (status === 429 || status === 503 ? busy : broken);

// ofSale says where the sale stands; empty while it sells.
export function ofSale(sale, now) {
  if (sale.state === 'closed' || sale.ends_at && now >= Date.parse(sale.ends_at)) return 'The sale is over.';
  if (sale.state === 'paused') return 'The sale is paused. It goes on here by itself.';
  if (sale.starts_at && now < Date.parse(sale.starts_at)) return 'The sale has not started.';
  if (sale.state === 'draft') return 'The sale has not been opened yet.';
  return '';
}
