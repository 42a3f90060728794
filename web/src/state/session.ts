// Who is signed in: a token, which is kept for this tab only.

import { computed, signal } from '@preact/signals';
import { useToken, whenRefused } from '../api/client';
import type { Role } from '../api/types';

const KEY = 'tidegate token';

const stored = signal<string | null>(null);
/** Why somebody was signed out. */
export const refusal = signal<string | null>(null);

const ROLES: Record<string, Role> = { o: 'operator', a: 'analyst', i: 'ingest' };

/** The role that a token shows. */
export function roleOf(token: string): Role | null {
  return ROLES[/^tg_([oai])_[A-Za-z0-9_-]+$/.exec(token)?.[1] ?? ''] ?? null;
}

export const isSignedIn = computed(() => stored.value !== null);
/** What the service says of the token, which decides. */
const confirmed = signal<Role | null>(null);
/** Whether the token has worked, here or before the page was loaded. */
let hasWorked = false;
export const role = computed<Role | null>(() => {
  if (stored.value === null) return null;
  return confirmed.value ?? roleOf(stored.value);
});
export const mayOperate = computed(() => role.value === 'operator');

export function confirmRole(said: Role): void {
  confirmed.value = said;
  hasWorked = true;
}

export function signIn(token: string, worked = false): void {
  confirmed.value = null;
  hasWorked = worked;
  sessionStorage.setItem(KEY, token);
  useToken(token);
  refusal.value = null;
  stored.value = token;
}

export function signOut(why: string | null = null): void {
  sessionStorage.removeItem(KEY);
  useToken(null);
  refusal.value = why;
  stored.value = null;
}

/** Takes the token out of a fragment `#token=..`, and returns the fragment without it. */
export function takeToken(fragment: string): { token: string | null; rest: string } {
  const parts = fragment.replace(/^#/, '').split('&');
  const found = parts.find((part) => part.startsWith('token='));
  if (!found) return { token: null, rest: fragment };
  const rest = parts.filter((part) => part !== found).join('&');
  return { token: decodeURIComponent(found.slice('token='.length)), rest: rest ? `#${rest}` : '' };
}

/** Signs in by the fragment, if a token is in it. It leaves the address: the history, and what is copied from it. */
function readFragment(): boolean {
  const { token, rest } = takeToken(location.hash);
  if (token === null) return false;
  history.replaceState(null, '', location.pathname + location.search + rest);
  signIn(token);
  return true;
}

export function begin(): void {
  whenRefused(() =>
    signOut(`The service does not know this token${hasWorked ? ' any more' : ''}. Sign in with another one.`),
  );
  addEventListener('hashchange', readFragment);
  const known = sessionStorage.getItem(KEY);
  if (!readFragment() && known) signIn(known, true);
}
