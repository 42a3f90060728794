// The address: `#/streams/visits?view=lines&last=24h`. All that a view shows is in it, so a link reproduces the view.

import { computed, signal } from '@preact/signals';

export interface Route {
  path: string[];
  params: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const decoded = path
    .split('/')
    .filter(Boolean)
    .map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    });
  return { path: decoded, params: new URLSearchParams(query) };
}

export function addressOf(path: string[], params: Record<string, string | null | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) if (value != null && value !== '') query.set(key, value);
  // Commas and colons may stand in a fragment, and read better.
  const text = query.toString().replaceAll('%2C', ',').replaceAll('%3A', ':');
  return `#/${path.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`;
}

const hash = signal('');
export const route = computed(() => parseRoute(hash.value));

export function watchAddress(): void {
  const read = (): void => void (hash.value = location.hash);
  addEventListener('hashchange', read);
  addEventListener('popstate', read);
  read();
}

export function go(address: string): void {
  location.hash = address;
}

/** Changes parameters of the present address; without `asStep`, the back key skips the change. */
export function setParams(changes: Record<string, string | null>, asStep = false): void {
  const { path, params } = route.peek();
  const all = { ...Object.fromEntries(params), ...changes };
  const address = addressOf(path, all);
  if (address === location.hash) return;
  if (asStep) history.pushState(null, '', address);
  else history.replaceState(null, '', address);
  hash.value = address;
}

export const param = (key: string): string | null => route.value.params.get(key);
