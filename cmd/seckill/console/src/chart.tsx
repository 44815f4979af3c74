// Lines over time, by uPlot; the legend beside them is text and says the newest values.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { scheme } from './theme';
import { clock } from './words';

export type Line = { label: string; tone: string; values: (number | null)[]; says?: string };

export function Chart({ label, times, lines, axis, steep, height = 200 }: {
  label: string; times: number[]; lines: Line[]; axis: (n: number) => string; height?: number;
  steep?: boolean; // values of very different size: each step of the axis is ten times the one before
}) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shape = lines.map((l) => l.label).join() + scheme.value;
  useEffect(() => {
    const at = host.current!;
    const made = new uPlot(options(at, lines, axis, height, steep), data(times, lines), at);
    plot.current = made;
    const fit = new ResizeObserver(() => made.setSize({ width: at.clientWidth, height }));
    fit.observe(at);
    return () => { fit.disconnect(); made.destroy(); };
  }, [shape]);
  useEffect(() => { plot.current?.setData(data(times, lines)); }, [times, lines]);
  return (
    <figure class="chart">
      <ul class="legend">
        {lines.map((l) => <li key={l.label}><i class={`tone-${l.tone}`} /> {l.label} <b>{l.says ?? axis(l.values.at(-1) ?? NaN)}</b></li>)}
      </ul>
      <div ref={host} role="img" aria-label={`${label}; the newest values stand in the list before it`} />
    </figure>
  );
}

const data = (times: number[], lines: Line[]) => [times, ...lines.map((l) => l.values)] as uPlot.AlignedData;

function options(at: HTMLElement, lines: Line[], axis: (n: number) => string, height: number, steep = false): uPlot.Options {
  const ink = (tone: string) => colour(at, `tone-${tone}`);
  const grid = { stroke: colour(at, 'tone-line'), width: 1 };
  const font = '12px system-ui, sans-serif';
  const scale = { stroke: ink('quiet'), font, grid, ticks: { show: false } };
  return {
    width: at.clientWidth, height, legend: { show: false }, cursor: { y: false, points: { size: 6 } }, padding: [8, 20, 0, 0],
    scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.1, 1)], ...(steep && { distr: 4, asinh: 1 }) } },
    axes: [
      { ...scale, size: 28, space: 90, incrs: [1, 5, 10, 15, 30, 60, 120, 300], values: (_, ticks) => ticks.map((t) => clock(new Date(t * 1000).toISOString())) },
      { ...scale, size: 60, values: (_, ticks) => ticks.map(axis), ...(steep && { splits: (u) => tens.filter((n) => n <= (u.scales.y.max ?? 0)), filter: (_, ticks) => ticks }) },
    ],
    series: [{}, ...lines.map((l) => ({ label: l.label, stroke: ink(l.tone), width: 2, points: { show: false } }))],
  };
}

const tens = [0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000];

// colour is what a class is drawn in under the present theme.
function colour(at: HTMLElement, name: string) {
  const probe = document.createElement('i');
  probe.className = name;
  at.append(probe);
  const seen = getComputedStyle(probe).color;
  probe.remove();
  return seen;
}
