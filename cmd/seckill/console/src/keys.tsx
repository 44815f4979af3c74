// Single keys, for those who want them: they can be turned off in the help.
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { question } from './confirm';
import { go, link, screens } from './route';
import { turn } from './theme';

export const helpOpen = signal(false);
const enabled = signal(localStorage.getItem('seckill.keys') !== 'off');

const keys: [string, string][] = [
  ['1 – 5', 'go to a screen'], ['/', 'search or filter'], ['j  k', 'next and previous row'], ['Enter', 'open the row'],
  ['t', 'light or dark'], ['?', 'this help'], ['Esc', 'close'],
];

addEventListener('keydown', (e) => {
  if (!enabled.value || e.ctrlKey || e.metaKey || e.altKey || question.value) return;
  const at = e.target as HTMLElement;
  if (at.matches('input, textarea, select, [contenteditable]')) {
    if (e.key === 'Escape') at.blur();
    return;
  }
  const screen = screens[Number(e.key) - 1];
  if (screen) go(link(screen[0]));
  else if (e.key === '/') document.querySelector<HTMLElement>('[data-search]')?.focus();
  else if (e.key === '?') helpOpen.value = true;
  else if (e.key === 't') turn();
  else if (e.key === 'j' || e.key === 'k') step(e.key === 'j' ? 1 : -1);
  else return;
  e.preventDefault();
});

// step moves between the first controls of rows.
function step(by: number) {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')];
  const here = rows.findIndex((r) => r.contains(document.activeElement));
  const row = rows[Math.min(Math.max(here + by, 0), rows.length - 1)];
  (row?.querySelector<HTMLElement>('a, button, input') ?? row)?.focus();
}

export function Help() {
  return helpOpen.value ? <HelpBox /> : null;
}

function HelpBox() {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => { box.current?.showModal(); }, []);
  return (
    <dialog ref={box} class="confirm" aria-labelledby="help" onClose={() => { helpOpen.value = false; }}>
      <h2 id="help">Keys</h2>
      <dl class="keys">{keys.map(([k, what]) => <div key={k}><dt><kbd>{k}</kbd></dt><dd>{what}</dd></div>)}</dl>
      <label class="check">
        <input type="checkbox" checked={enabled.value} onChange={(e) => {
          enabled.value = e.currentTarget.checked;
          localStorage.setItem('seckill.keys', enabled.value ? 'on' : 'off');
        }} /> Single keys do this
      </label>
      <div class="actions"><button type="button" autofocus onClick={() => box.current?.close()}>Close</button></div>
    </dialog>
  );
}
