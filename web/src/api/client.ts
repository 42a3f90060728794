// Requests to the service. The token is kept in this tab only.

import type { Problem } from './types';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

let token: string | null = null;
let onRefused: () => void = () => undefined;

export function useToken(given: string | null): void {
  token = given;
}

/** Calls `refused` when the service no longer knows the token. */
export function whenRefused(refused: () => void): void {
  onRefused = refused;
}

export interface Options {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** A request with the token. Fails with an `ApiError` whose message is for people. */
export async function request(path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  const sent = token;
  if (sent) headers.authorization = `Bearer ${sent}`;
  const init: RequestInit = { method: options.method ?? 'GET', headers, cache: 'no-store', redirect: 'error' };
  if (options.body !== undefined) {
    headers['content-type'] = 'application/json';
    init.body = JSON.stringify(options.body);
  }
  if (options.signal) init.signal = options.signal;
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, 'network', 'The service does not answer. Is it running, and can this machine reach it?');
  }
  if (!response.ok) {
    const problem = (await response.json().catch(() => null)) as Problem | null;
    if (response.status === 401 && sent && sent === token) onRefused();
    throw new ApiError(response.status, problem?.error ?? 'status', problem?.message ?? `status ${response.status}`);
  }
  return response;
}

export async function json<T>(path: string, options: Options = {}): Promise<T> {
  return (await (await request(path, options)).json()) as T;
}

export const streamPath = (name: string): string => `v1/streams/${encodeURIComponent(name)}`;

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
