// What the server says and is asked. Shapes as in its OpenAPI document.
import { signal } from '@preact/signals';

export type Session = { operator: string; read_only: boolean; csrf: string; expires_at: string };
export type SKU = {
  sku: string; total: number; stock: number; limit_per_user: number; price: number;
  gate_stock: number | null; undecided: number; live: number; release_due: number; difference: number; held: number;
};
export type Sale = {
  activity: string; title: string; state: 'draft' | 'open' | 'paused' | 'closed'; gate: string;
  starts_at: string | null; ends_at: string | null; payment_window: string; epoch: number; gate_epoch: number; suspect: string;
  exact: boolean; skus: SKU[];
};
export type Quantiles = { count: number; p50_ms: number | null; p90_ms: number | null; p99_ms: number | null; p999_ms: number | null };
export type Lease = { name: string; owner: string; token: number; ttl_ms: number; since: string; waiters: number; note: string };
export type Partition = {
  partition: number; term: number; holder: string; settled_seq: number; backlog_orders: number;
  unread: number; in_flight: number; redelivered: number; lease: Lease | null;
};
export type Store = { store: string; up: boolean; ms: number; error: string };
export type Funnel = {
  seconds: number; asked: number; accepted: number; repeated: number;
  refused: Record<string, number> | null; limits: Record<string, number> | null; settled: Record<string, number> | null;
};
export type OrderLog = {
  last_seq: number; messages: number; backlog_orders: number; undecided_orders: number; oldest_unsettled_seconds: number;
  unread: number; in_flight: number; redelivered: number; dead_letters: number; release_due: number;
  events_backlog: number; events_oldest_seconds: number;
};
export type Sample = {
  at: string; seq: number; took_ms: number; every_ms: number;
  process: { instance: string; version: string; roles: string[] };
  stores: Store[] | null; activities: Sale[] | null; funnel: Funnel | null;
  latency: Record<'admission' | 'append' | 'settle' | 'order', Quantiles | null> | null;
  log: OrderLog | null; partitions: Partition[] | null; locks: Lease[] | null; lock_backend: string; violations: number | null;
  errors: { part: string; error: string }[] | null;
};
export type Order = {
  order_id: string; activity: string; sku: string; user: string; quantity: number; amount: number; status: string; reason?: string;
  created_at: string; decided_at?: string; pay_before?: string; refund?: string; replaced_by?: string;
};
export type Way = {
  order: Order; gate: string; replaces?: string;
  ledger: { partition: number; log_seq: number; term: number; epoch: number; release_epoch: number | null; key?: string } | null;
  steps: { step: string; at: string | null; detail: string; actor?: string; reason?: string }[];
};
export type Letter = {
  id: string; number: number; activity: string; reason: string; detail: string; seq: number; deliveries: number; at: string;
  order?: { id: string; user: string; sku: string; quantity: number; at: string }; data?: string; status?: string;
};
export type Group = { activity: string; reason: string; detail: string; count: number; first_at: string; last_at: string; ids: string[] };
export type Letters = { groups: Group[]; letters: Letter[]; total: number; grouped: number; next?: number };
export type Decided = { letters: { id: string; result: string; status?: string; reason?: string }[]; failed: { id: string; detail: string }[]; next?: number };
export type Alike = { letters: number; units: number; up_to: number };
export type Selection = {
  source: string; mode: string; activity?: string; sku?: string; user?: string; order?: string;
  partition?: number; from_seq?: number; to_seq?: number; since?: string; until?: string;
};
export type Counts = { read: number; matched: number; settled: number; already: number; rejected: number; dead: number; unknown: number };
export type Run = Counts & {
  run: string; selection: Selection; from_seq: number; to_seq: number; position: number;
  started_at: string; updated_at: string; finished_at: string | null;
};
export type Summary = Counts & {
  run: string; from_seq: number; to_seq: number; undecided?: number;
  lines?: { order_id: string; seq: number; result: string; reason?: string }[];
};
export type AuditReport = {
  ok: boolean; at_rest: boolean;
  activities: { activity: string; skus: { sku: string; total: number; stock: number; live: number; gate_stock: number | null; undecided: number; release_due: number; epoch: number }[] }[];
  violations: { law: string; activity: string; sku: string; order: string; detail: string }[];
  log: { last_seq: number; orders: number; backlog: number; dead: number };
};
export type Job = {
  job: string; kind: 'audit' | 'replay' | 'replay-plan'; state: 'running' | 'done' | 'failed' | 'cancelled'; actor: string; reason: string;
  asked: Record<string, unknown>; started_at: string; ended_at: string | null; read: number; of: number; run?: string;
  result: unknown; error: string;
};
export type Entry = { id: number; at: string; actor: string; action: string; subject: string; detail: string; reason: string };

// session is undefined until the server has said whether there is one.
export const session = signal<Session | null | undefined>(undefined);
export const mayChange = () => session.value?.read_only === false;

// Refusal is an answer that is no success; its message is for the operator.
export class Refusal extends Error {
  constructor(readonly status: number, readonly code: string, message: string) { super(message); }
}

const patience = 30_000; // ms for one answer

async function call<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (method !== 'GET' && session.value) headers['Seckill-CSRF'] = session.value.csrf;
  let r: Response;
  try {
    r = await fetch(`/admin/v1${path}`, { method, headers, cache: 'no-store', signal: AbortSignal.timeout(patience), body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Refusal(0, 'offline', method === 'GET' ? 'The server does not answer. Is this process of seckill still running?'
      : 'No answer came: it may or may not have been done. Look at the figures, then ask again.');
  }
  if (r.ok) return r.status === 204 ? undefined as T : await r.json();
  const problem = await r.json().catch(() => ({}));
  if (r.status === 401 && path !== '/session') session.value = null;
  throw new Refusal(r.status, String(problem.type ?? '').split('/').pop() ?? '', problem.detail || problem.title || `The server answered ${r.status}.`);
}

const get = <T>(path: string, query: Record<string, string | number | undefined> = {}) => {
  const given = Object.entries(query).filter(([, v]) => v !== undefined && v !== '').map(([k, v]) => [k, String(v)]);
  return call<T>('GET', given.length ? `${path}?${new URLSearchParams(given)}` : path);
};
const post = <T>(path: string, body: unknown, headers?: Record<string, string>) => call<T>('POST', path, body, headers);
const part = encodeURIComponent;

export async function resume() {
  try { session.value = await get<Session>('/session'); } catch (e) { if ((e as Refusal).status === 401) session.value = null; else throw e; }
}
export async function login(token: string) { session.value = await post<Session>('/session', { token }); }
export async function logout() { await call('DELETE', '/session'); session.value = null; }

export const moveSale = (id: string, step: 'open' | 'pause' | 'resume' | 'close', reason: string) =>
  post<Sale>(`/activities/${part(id)}/${step}`, reason ? { reason } : undefined);
export const changeStock = (id: string, sku: string, delta: number, reason: string, key: string) =>
  post<Sale>(`/activities/${part(id)}/skus/${part(sku)}/stock`, { delta, reason }, { 'Idempotency-Key': key });

export const findOrders = (q: { id?: string; activity?: string; user?: string; status?: string; after?: string; limit?: number }) =>
  get<{ orders: Order[]; next?: string }>('/orders', q);
export const orderWay = (id: string) => get<Way>(`/orders/${part(id)}`);
export const cancelOrder = (id: string, reason: string, refund: boolean) => post<Order>(`/orders/${part(id)}/cancel`, { reason, refund });

export const letters = (q: { activity?: string; after?: number }) => get<Letters>('/dlq', { ...q, limit: 200 });
export const decideLetters = (how: 'replay' | 'drop', ids: string[], reason: string) => post<Decided>(`/dlq/${how}`, { ids, reason });
export const countAlike = ({ activity, reason, detail }: Group) => get<Alike>('/dlq/group', { activity, reason, detail });
export const decideAlike = (how: 'replay' | 'drop', { activity, reason: why, detail }: Group, up_to: number, after: number, reason: string) =>
  post<Decided>(`/dlq/${how}`, { group: { activity, reason: why, detail, up_to, after }, reason });
export const planReplay = (s: Selection) => post<Job>('/replays/plan', s);
export const runReplay = (s: Selection, rate: number | undefined, reason: string) => post<Job>('/replays', { ...s, rate, reason });
export const resumeReplay = (run: string, reason: string) => post<Job>(`/replays/${part(run)}/resume`, { reason });
export const replays = () => get<{ replays: Run[] }>('/replays', { limit: 20 });

export const audit = (activity: string, wait: string) => post<Job>('/audits', { ...(activity && { activity }), wait });
export const cancelJob = (id: string) => post<Job>(`/jobs/${part(id)}/cancel`, undefined);
export const releaseLease = (name: string, token: number, reason: string) =>
  post('/locks/release', { name, token, reason });
export const activityLog = (q: { subject?: string; actor?: string; before?: number }) =>
  get<{ entries: Entry[]; next?: number }>('/activity-log', { ...q, limit: 50 });
