// Reading something again and again while it is shown.

import { useSignal, type Signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { isAbort } from '../api/client';

export interface Polled<T> {
  value: Signal<T | null>;
  error: Signal<unknown>;
  again(): void;
}

/** Reads at once and then every so many milliseconds, while the page is visible. */
export function usePolled<T>(
  read: (signal: AbortSignal) => Promise<T>,
  every: number,
  keys: unknown[] = [],
): Polled<T> {
  const value = useSignal<T | null>(null);
  const error = useSignal<unknown>(null);
  const round = useSignal(0);
  const started = round.value;
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const run = async (): Promise<void> => {
      if (!document.hidden) {
        try {
          value.value = await read(stop.signal);
          error.value = null;
        } catch (failure) {
          if (stop.signal.aborted) return;
          if (!isAbort(failure)) error.value = failure;
        }
      }
      if (!stop.signal.aborted) timer = setTimeout(run, every);
    };
    const shown = (): void => {
      if (document.hidden) return;
      clearTimeout(timer);
      void run();
    };
    void run();
    document.addEventListener('visibilitychange', shown);
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', shown);
    };
  }, [started, every, ...keys]);
  return { value, error, again: () => void (round.value += 1) };
}
