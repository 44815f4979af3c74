// How numbers, times and states are written; one way for all screens.

const whole = new Intl.NumberFormat('en-US');
export const count = (n: number | null | undefined) => (n == null ? '–' : whole.format(n));
export const signed = (n: number) => (n > 0 ? '+' : n < 0 ? '−' : '±') + whole.format(Math.abs(n));
export const units = (n: number) => `${count(n)} ${n === 1 ? 'unit' : 'units'}`;
export const many = (n: number, one: string, more = one + 's') => `${count(n)} ${n === 1 ? one : more}`;

// rate is a number a second.
export const rate = (n: number | null | undefined) =>
  n == null || !Number.isFinite(n) ? '–' : n >= 100 || Number.isInteger(n) ? whole.format(Math.round(n)) : n >= 10 ? n.toFixed(0) : n.toFixed(1);

// span is a duration given in seconds.
export function span(s: number | null | undefined) {
  if (s == null || !Number.isFinite(s)) return '–';
  if (s < 0.001) return '<1 ms';
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const two = (n: number) => String(n).padStart(2, '0');

// clock is a time of today, or with its date; both in this device's zone.
export function clock(t: string | null | undefined, ms = false) {
  if (!t) return '–';
  const d = new Date(t);
  const time = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}${ms ? '.' + String(d.getMilliseconds()).padStart(3, '0') : ''}`;
  return d.toDateString() === new Date().toDateString() ? time : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${time}`;
}

export type Tone = 'good' | 'wait' | 'bad' | 'info' | 'plain';

const tones: Record<string, Tone> = {
  open: 'good', live: 'good', paused: 'wait', closed: 'plain', draft: 'plain', scheduled: 'info', ended: 'plain', 'sold out': 'info',
  accepted: 'info', held: 'bad', pending_payment: 'wait', confirmed: 'good', paid: 'good', cancelled: 'plain', expired: 'plain', rejected: 'plain',
  settled: 'good', already: 'plain', dead: 'bad', unknown: 'wait',
};
export const toneOf = (state: string): Tone => tones[state] ?? 'plain';
export const shownState = (state: string) => state.replaceAll('_', ' ');
