// A question that names the effect before anything is changed.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Fault, tell } from './ui';

export type Question = {
  title: string; // the effect, with its numbers
  detail?: ComponentChildren;
  verb: string; // on the button
  danger?: boolean;
  reason?: 'required' | 'optional'; // written to the activity log
  number?: { label: string; hint: (n: number) => string; ok: (n: number) => boolean };
  run: (given: { reason: string; number: number; key: string }) => Promise<string>; // what was done, told when it is
};

export const question = signal<Question | null>(null);
export const ask = (q: Question) => { question.value = q; };

export function Confirm() {
  const q = question.value;
  return q && <Asking key={q.title} q={q} />;
}

function Asking({ q }: { q: Question }) {
  const box = useRef<HTMLDialogElement>(null);
  const key = useRef(newKey()); // one for all tries of this question, so that it is done once
  const [reason, setReason] = useState('');
  const [number, setNumber] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => { box.current?.showModal(); }, []);
  const n = Number(number);
  const ready = (q.reason !== 'required' || reason.trim() !== '') && (!q.number || (/^[+-]?\d+$/.test(number.trim()) && q.number.ok(n)));
  const close = () => box.current?.close(); // which gives the focus back
  const submit = async (e: Event) => {
    e.preventDefault();
    if (!ready || busy) return;
    setBusy(true);
    setError(null);
    try {
      tell(await q.run({ reason: reason.trim(), number: n, key: key.current }));
      close();
    } catch (problem) {
      setError(problem as Error);
    }
    setBusy(false);
  };
  return (
    <dialog ref={box} class="confirm" aria-labelledby="question" onClose={() => { question.value = null; }}>
      <form onSubmit={submit}>
        <h2 id="question">{q.title}</h2>
        {q.detail && <div class="detail">{q.detail}</div>}
        {q.number && (
          <label>
            <span>{q.number.label}</span>
            <input name="number" inputMode="text" autocomplete="off" required value={number} onInput={(e) => setNumber(e.currentTarget.value)} autofocus />
            <small class="quiet" aria-live="polite">{q.number.hint(/^[+-]?\d+$/.test(number.trim()) ? n : NaN)}</small>
          </label>
        )}
        {q.reason && (
          <label>
            <span>Reason{q.reason === 'required' ? '' : ' (optional)'}</span>
            <input name="reason" autocomplete="off" maxLength={500} required={q.reason === 'required'} value={reason} onInput={(e) => setReason(e.currentTarget.value)} autofocus={!q.number} />
            <small class="quiet">Kept in the activity log with your name.</small>
          </label>
        )}
        {error && <Fault error={error} />}
        <div class="actions">
          <button type="button" onClick={close} autofocus={!q.number && !q.reason}>Leave as it is</button>
          <button type="submit" class={q.danger ? 'danger' : 'primary'} disabled={!ready || busy}>{busy ? 'Working …' : q.verb}</button>
        </div>
      </form>
    </dialog>
  );
}

const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
