// Parts that every screen uses.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Tone } from './words';
import { shownState, toneOf } from './words';

export function Badge({ state, tone, children }: { state?: string; tone?: Tone; children?: ComponentChildren }) {
  return <span class={`badge ${tone ?? toneOf(state ?? '')}`}>{children ?? shownState(state ?? '')}</span>;
}

// Panel is one titled part of a screen.
export function Panel({ title, note, actions, wide, children }: {
  title: string; note?: ComponentChildren; actions?: ComponentChildren; wide?: boolean; children: ComponentChildren;
}) {
  return (
    <section class={wide ? 'panel wide' : 'panel'} aria-label={title}>
      <header>
        <h2>{title}</h2>
        {note && <p class="quiet">{note}</p>}
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </section>
  );
}

// Scroll is where a table may be wider than the screen; the page itself never is.
export function Scroll({ label, children }: { label: string; children: ComponentChildren }) {
  return <div class="scroll" role="region" aria-label={`${label}: table`} tabIndex={0}>{children}</div>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="empty"><p><strong>{title}</strong></p>{children && <p class="quiet">{children}</p>}</div>;
}

export function Fault({ error, retry }: { error: Error; retry?: () => void }) {
  return (
    <div class="fault" role="alert">
      <p>{error.message}</p>
      {retry && <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}

// Copy shows an id, shortened where there is little room, and copies all of it.
export function Copy({ text, short }: { text: string; short?: boolean }) {
  const [done, setDone] = useState(false);
  const copy = async (e: Event) => {
    e.stopPropagation();
    await writeClipboard(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <span class="copy">
      <code title={text}>{short ? `${text.slice(0, 8)}…${text.slice(-4)}` : text}</code>
      <button type="button" class="icon" aria-label={`Copy ${text}`} title="Copy" onClick={copy}><Glyph done={done} /></button>
    </span>
  );
}

const Glyph = ({ done }: { done: boolean }) => (
  <svg viewBox="0 0 16 16" aria-hidden="true">{done ? <path d="M3 8.5 6.5 12 13 4.5" /> : <path d="M6 6h7v7H6zM3 10V3h7" />}</svg>
);

// The clipboard of the browser exists on https and loopback only.
async function writeClipboard(text: string) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).catch(() => undefined);
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

// notice is read out, and shown for a while: what was done.
export const notice = signal('');
let clearing = 0;
export function tell(text: string) {
  notice.value = text;
  clearTimeout(clearing);
  clearing = window.setTimeout(() => { notice.value = ''; }, 8000);
}

export const Notice = () => <div class="notice" role="status" aria-live="polite">{notice.value && <p>{notice.value}</p>}</div>;
