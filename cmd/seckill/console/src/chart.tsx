// Lines over time, by uPlot; the legend beside them is text and says the newest values.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { scheme } from './theme';

export type Line = { label: string; tone: string; values: (number | null)[]; says?: string };

export function Chart({ label, times, lines, axis, height = 200 }: {
  label: string; times: number[]; lines: Line[]; axis: (n: number) => string; height?: number;
}) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shape = lines.map((l) => l.label).join() + scheme.value;
  useEffect(() => {
    const at = host.current!;
    const made = new uPlot(options(at, lines, axis, height), data(times, lines), at);
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

function options(at: HTMLElement, lines: Line[], axis: (n: number) => string, height: number): uPlot.Options {
  const ink = (tone: string) => colour(at, `tone-${tone}`);
  const grid = { stroke: colour(at, 'tone-line'), width: 1 };
  const font = '12px system-ui, sans-serif';
  const scale = { stroke: ink('quiet'), font, grid, ticks: { show: false } };
  return {
    width: at.clientWidth, height, legend: { show: false }, cursor: { y: false, points: { size: 6 } }, padding: [8, 8, 0, 0],
    scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.1, 1e-3)] } },
    axes: [{ ...scale, space: 70 }, { ...scale, size: 56, values: (_, ticks) => ticks.map(axis) }],
    series: [{}, ...lines.map((l) => ({ label: l.label, stroke: ink(l.tone), width: 2, points: { show: false } }))],
  };
}

// colour is what a class is drawn in under the present theme.
function colour(at: HTMLElement, name: string) {
  const probe = document.createElement('i');
  probe.className = name;
  at.append(probe);
  const seen = getComputedStyle(probe).color;
  probe.remove();
  return seen;
}
