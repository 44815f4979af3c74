// A question to the server that a screen asks again when its filters change.
import { useCallback, useEffect, useState } from 'preact/hooks';

export type Loaded<T> = { value: T | null; error: Error | null; at: number; busy: boolean; again: () => void };

export function useLoad<T>(ask: () => Promise<T>, deps: unknown[]): Loaded<T> {
  const [state, set] = useState<{ value: T | null; error: Error | null; at: number; busy: boolean }>({ value: null, error: null, at: 0, busy: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let wanted = true;
    set((s) => ({ ...s, busy: true }));
    ask().then(
      (value) => { if (wanted) set({ value, error: null, at: Date.now(), busy: false }); },
      (error) => { if (wanted) set((s) => ({ ...s, error, busy: false })); },
    );
    return () => { wanted = false; };
  }, [...deps, turn]);
  return { ...state, again: useCallback(() => setTurn((n) => n + 1), []) };
}
