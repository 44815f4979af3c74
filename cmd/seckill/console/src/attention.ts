// What an operator should look at now, and what to do about it.
import { computed } from '@preact/signals';
import type { Sale, Sample } from './api';
import { sample } from './live';
import type { Screen } from './route';
import { count, many, span } from './words';

export type Attention = { tone: 'bad' | 'wait'; screen: Screen; id?: string; what: string; next: string; n: number };

const late = 10; // seconds that an order may reasonably wait for its decision

export const attention = computed(() => (sample.value ? [...laws(sample.value), ...letters(sample.value), ...work(sample.value), ...stores(sample.value)] : []));

// broken: a difference counts only when nothing moved while the stores were read.
export const broken = (a: Sale) => a.exact && a.skus.some((s) => s.gate_stock !== null && s.difference !== 0);

function laws(s: Sample): Attention[] {
  const found: Attention[] = [];
  for (const a of s.activities ?? []) {
    if (broken(a)) found.push({ n: 1, tone: 'bad', screen: 'live', id: a.activity, what: `The stock of ${a.activity} does not add up`, next: 'Run an audit; seckill reconcile mends a gate.' });
    if (a.state === 'open' && ['untrusted', 'none', 'rebuilding'].includes(a.gate)) {
      const why = a.gate === 'none' ? 'has no gate' : `has a gate that is ${a.gate}`;
      found.push({ n: 1, tone: 'bad', screen: 'live', id: a.activity, what: `${a.activity} ${why}${a.suspect ? `: ${a.suspect}` : ''}`, next: 'Buyers are told to wait. A running worker makes the gate anew from the ledger.' });
    }
  }
  return found;
}

const letters = (s: Sample): Attention[] => (s.log?.dead_letters
  ? [{ n: s.log.dead_letters, tone: 'bad', screen: 'dead', what: `${many(s.log.dead_letters, 'dead letter')}`, next: 'Their orders wait for a decision: replay them once the cause is gone, or drop them.' }] : []);

function work(s: Sample): Attention[] {
  const found: Attention[] = [];
  const idle = (s.partitions ?? []).filter((p) => !p.lease && p.backlog_orders > 0);
  if (idle.length) {
    found.push({ n: idle.length, tone: 'bad', screen: 'pipeline', what: `${many(idle.length, 'partition')} with orders and no worker`, next: 'Start a worker (seckill serve); a dead one is replaced within the TTL of its lease.' });
  } else if (s.log && s.log.oldest_unsettled_seconds > late) {
    found.push({ n: 1, tone: 'wait', screen: 'pipeline', what: `The oldest of ${count(s.log.backlog_orders)} waiting orders is ${span(s.log.oldest_unsettled_seconds)} old`, next: 'Orders are kept and settled in turn. If it grows, add workers or look at Postgres.' });
  }
  return found;
}

const stores = (s: Sample): Attention[] => (s.stores ?? []).filter((x) => !x.up).map((x) => ({
  n: 1, tone: 'bad', screen: 'pipeline', what: `${storeName(x.store)} does not answer`, next: withoutStore[x.store] ?? 'Start it again.',
}));

const names: Record<string, string> = { redis: 'Redis', nats: 'NATS', postgres: 'Postgres', etcd: 'etcd' };
export const storeName = (s: string) => names[s] ?? s;

const withoutStore: Record<string, string> = {
  redis: 'Buyers are told to wait. When it is back, gates are checked and made anew if need be.',
  nats: 'Nobody is admitted, since nothing could be kept. It goes on by itself when it is back.',
  postgres: 'Orders are still taken and kept in the log; they are settled when it is back.',
  etcd: 'Orders are still taken; settlement stops when the leases run out and goes on by itself.',
};
