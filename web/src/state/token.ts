// What the service says of the token.

import { effect, signal } from '@preact/signals';
import { ApiError } from '../api/client';
import { getToken } from '../api/routes';
import type { TokenInfo } from '../api/types';
import { confirmRole, isSignedIn } from './session';

export const tokenInfo = signal<TokenInfo | null>(null);

export function watchToken(): void {
  effect(() => {
    tokenInfo.value = null;
    if (!isSignedIn.value) return;
    const stop = new AbortController();
    getToken(stop.signal).then(
      (info) => {
        tokenInfo.value = info;
        confirmRole(info.role);
      },
      (error: unknown) => {
        // 401 signs out; anything else shows where it matters.
        if (!(error instanceof ApiError) && !stop.signal.aborted) console.error(error);
      },
    );
    return () => stop.abort();
  });
}
