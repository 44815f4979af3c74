// Who asks and what they are told, and how long it takes: of the process that serves
// this page.
import { useMemo } from 'preact/hooks';
import type { Funnel as Rates, Quantiles } from '../api';
import { Chart } from '../chart';
import { history, sample } from '../live';
import { Empty, Panel, Scroll } from '../ui';
import { rate } from '../words';

// Here says whose figures they are: another process has others.
const Here = () => <>of this process only: <code>{sample.value!.process.instance}</code></>;

const sum = (o: Record<string, number> | null | undefined) => Object.values(o ?? {}).reduce((n, v) => n + v, 0);

export function Funnel() {
  const f = sample.value!.funnel;
  const past = history.value;
  const { times, lines } = useMemo(() => {
    const of = (read: (f: Rates) => number) => past.map((m) => (m.sample.funnel ? read(m.sample.funnel) : null));
    return {
      times: past.map((m) => m.t),
      lines: [
        { label: 'asked', tone: 'quiet', values: of((x) => x.asked) },
        { label: 'refused', tone: 'refused', values: of((x) => sum(x.refused)) },
        { label: 'accepted', tone: 'accepted', values: of((x) => x.accepted) },
        { label: 'settled', tone: 'settled', values: of((x) => sum(x.settled)) },
      ],
    };
  }, [past]);
  return (
    <Panel title="Funnel per second" note={<><Here />; the chart is logarithmic</>}>
      {f ? <><Chart steep label="Requests per second" times={times} lines={lines} axis={rate} /><Steps f={f} /></>
        : <NoRates />}
    </Panel>
  );
}

const NoRates = () => (sample.value!.process.roles.includes('api')
  ? <Empty title="Counting …">The first second is not over.</Empty>
  : <Empty title="This process takes no orders">It has no role api; open the console of one that has.</Empty>);

// Steps is the funnel of the newest second: each row a part of what was asked.
function Steps({ f }: { f: Rates }) {
  const refused = Object.entries(f.refused ?? {}).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  const decided = Object.entries(f.settled ?? {}).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  const rows: [string, number, string][] = [
    ['Asked', f.asked, 'quiet'],
    ...refused.map(([code, n]): [string, number, string] => [code === 'rate-limited' ? `rate-limited${limitsOf(f)}` : code, n, 'refused']),
    ...(f.repeated > 0 ? [['asked again, same order', f.repeated, 'flight'] as [string, number, string]] : []),
    ['Accepted', f.accepted, 'accepted'],
    ...decided.map(([how, n]): [string, number, string] => [`settled: ${how.replaceAll('_', ' ')}`, n, 'settled']),
  ];
  const most = Math.max(f.asked, ...rows.map(([, n]) => n), 1);
  return (
    <table class="steps">
      <caption class="visually-hidden">The last second, step by step</caption>
      <thead class="visually-hidden"><tr><th>Step</th><th>Share</th><th>Per second</th></tr></thead>
      <tbody>{rows.map(([label, n, tone]) => (
        <tr key={label}>
          <th scope="row">{label}</th>
          <td class="share"><i class={`tone-${tone}`} style={{ width: `${(100 * n) / most}%` }} /></td>
          <td class="num">{rate(n)}</td>
        </tr>
      ))}</tbody>
    </table>
  );
}

const limitsOf = (f: Rates) => {
  const by = Object.entries(f.limits ?? {}).filter(([, n]) => n > 0).map(([k]) => k);
  return by.length ? ` (${by.join(', ')})` : '';
};

const ways = [
  ['admission', 'Answer', 'request to answer'], ['append', 'Append', 'log on disk'],
  ['settle', 'Settle', 'one transaction'], ['order', 'Order', 'reserved to settled'],
] as const;

const ms = (v: number | null | undefined) => (v == null ? '–' : v >= 1000 ? `${(v / 1000).toFixed(1)} s` : v >= 100 ? `${Math.round(v)}` : v.toFixed(1));

export function Latency() {
  const l = sample.value!.latency;
  const past = history.value;
  const { times, lines } = useMemo(() => {
    const of = (read: (q: Quantiles) => number | null) => past.map((m) => { const q = m.sample.latency?.admission; return q ? read(q) : null; });
    return {
      times: past.map((m) => m.t),
      lines: [
        { label: 'p50', tone: 'settled', values: of((q) => q.p50_ms) },
        { label: 'p99', tone: 'accepted', values: of((q) => q.p99_ms) },
        { label: 'p99.9', tone: 'back', values: of((q) => q.p999_ms) },
      ],
    };
  }, [past]);
  return (
    <Panel title="Latency" note={<>ms, the last 10 s <Here /></>}>
      {l ? <>
        <Chart label="Request to answer in milliseconds" times={times} lines={lines} axis={(v) => ms(Number.isFinite(v) ? v : null)} />
        <Scroll label="Latency by step">
          <table class="latency">
            <thead><tr><th>Step</th><th class="num">p50</th><th class="num">p90</th><th class="num">p99</th><th class="num">p99.9</th></tr></thead>
            <tbody>{ways.map(([key, label, meaning]) => {
              const q = l[key];
              return (
                <tr key={key}>
                  <th scope="row">{label} <span class="quiet">{meaning}</span></th>
                  <td class="num">{ms(q?.p50_ms)}</td><td class="num">{ms(q?.p90_ms)}</td><td class="num">{ms(q?.p99_ms)}</td><td class="num">{ms(q?.p999_ms)}</td>
                </tr>
              );
            })}</tbody>
          </table>
        </Scroll>
      </> : <Empty title="No figures">The metrics of this process could not be read.</Empty>}
    </Panel>
  );
}
