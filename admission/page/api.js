// The page's side of the HTTP interface: who asks, what time it is, what came back.

export const activity = decodeURIComponent(location.pathname.split('/').pop());
const base = `/v1/activities/${encodeURIComponent(activity)}`;

// A gateway that says who the buyer is needs nothing from here. A shop that uses tokens, or
// entry tickets, links to this page with #token=… or #ticket=…: they are kept for this tab,
// and taken out of the address.
function given(name) {
  const value = new URLSearchParams(location.hash.slice(1)).get(name);
  if (value) sessionStorage.setItem(`seckill.${name}`, value);
  return sessionStorage.getItem(`seckill.${name}`);
}
const token = given('token');
const ticket = given('ticket');
if (location.hash) history.replaceState(null, '', location.pathname + location.search);

// ask returns {status, code, body, etag, retryAfter in s}. No answer has status 0 and the
// code offline: what was asked may or may not have been done.
async function ask(path, { method = 'GET', headers = {}, body, seconds = 10 } = {}) {
  if (token) headers.Authorization = `Bearer ${token}`;
  try {
    const r = await fetch(base + path, { method, headers, body, cache: 'no-store', signal: AbortSignal.timeout(seconds * 1000) });
    const text = await r.text();
    const answer = { status: r.status, body: text ? JSON.parse(text) : {}, etag: r.headers.get('ETag'), retryAfter: Number(r.headers.get('Retry-After')) || 0 };
    answer.code = r.status >= 400 ? String(answer.body.type).split('/').pop() : '';
    return answer;
  } catch {
    return { status: 0, code: 'offline', body: {}, retryAfter: 2 };
  }
}

let reading = { rtt: Infinity, at: 0, server: Date.now() };

// now is the server's time in ms. The reading with the shortest way counts, for a minute;
// the steps of this device's clock do not.
export const now = () => reading.server + performance.now() - reading.at;

function setClock(serverTime, sent) {
  const got = performance.now();
  const rtt = got - sent;
  if (rtt <= reading.rtt || got - reading.at > 60_000) reading = { rtt, at: sent + rtt / 2, server: Date.parse(serverTime) };
}

export async function readSale(etag) {
  const sent = performance.now();
  const r = await ask('', { headers: etag ? { 'If-None-Match': etag } : {} });
  if (r.status === 200) setClock(r.body.server_time, sent);
  return r;
}

export const readOrders = () => ask('/orders?limit=100');
export const readOrder = (id) => ask(`/orders/${id}`);
export const awaitOrder = (id) => ask(`/orders/${id}?wait=20s`, { seconds: 30 });

export const place = (sku, quantity, key) => ask('/orders', {
  method: 'POST', headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key, ...(ticket && { 'Seckill-Ticket': ticket }) }, body: JSON.stringify({ sku, quantity }),
});

// newKey is made without crypto.randomUUID, which exists on https only.
export const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
