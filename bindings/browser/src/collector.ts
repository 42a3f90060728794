// A client of a service that it does not trust: retries of identical bytes, pauses, limits.

import { DeviceError, type OpenQuestions, type Receipt } from './types.js';

const LONGEST_PAUSE = 30_000;
const FIRST_PAUSE = 500;
const LIMITS = { short: 64 << 10, policy: 2 << 20, long: 8 << 20 };
const BATCH = 'application/vnd.tidegate.batch';

/** Waits, less when the network comes back, and ends with an error when the signal says so. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const over = new AbortController();
    const end = (settle: () => void) => () => {
      clearTimeout(timer);
      over.abort();
      settle();
    };
    const timer = setTimeout(end(resolve), milliseconds);
    globalThis.addEventListener('online', end(resolve), { signal: over.signal });
    signal?.addEventListener(
      'abort',
      end(() => reject(signal.reason as Error)),
      { signal: over.signal },
    );
  });
}

/** Between half and all of a pause that doubles: devices that are rejected together must not return together. */
export function backOff(attempts: number): number {
  return Math.min(FIRST_PAUSE * 2 ** Math.min(attempts - 1, 16), LONGEST_PAUSE) * (0.5 + 0.5 * Math.random());
}

function checked(server: string): string {
  let url: URL;
  try {
    url = new URL(server);
  } catch {
    throw new DeviceError('argument', 'server: expected an address such as https://collector.example');
  }
  const isOwn = /(^|\.)localhost$|^127\.|^\[::1\]$/.test(url.hostname);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isOwn))
    throw new DeviceError('argument', 'server: expected https; plain http is for this machine only');
  if (url.username || url.password || url.search || url.hash)
    throw new DeviceError('argument', 'server: expected no user, no question mark and no hash');
  return url.href.replace(/\/+$/, '');
}

async function text(response: Response, limit: number): Promise<string> {
  const reader = response.body?.getReader();
  if (!reader) return '';
  const decoder = new TextDecoder();
  let read = 0;
  let found = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return found + decoder.decode();
    read += value.byteLength;
    if (read > limit) {
      await reader.cancel();
      throw new DeviceError('answer', `the service's answer is longer than ${limit} bytes`);
    }
    found += decoder.decode(value, { stream: true });
  }
}

interface Call {
  path: string;
  limit: number;
  body?: Uint8Array<ArrayBuffer> | string;
  type?: string;
  /** Milliseconds that the service may wait. */
  wait?: number;
  signal?: AbortSignal | undefined;
  attempts?: number;
  timeout?: number;
  /** No attempt begins later, in milliseconds since 1970. */
  before?: number;
}

export class Collector {
  readonly #base: string;
  readonly #token: string | undefined;
  readonly #attempts: number;
  readonly #timeout: number;

  constructor(server: string, token: string | undefined, attempts: number, timeout: number) {
    this.#base = checked(server);
    this.#token = token;
    this.#attempts = attempts;
    this.#timeout = timeout;
  }

  #path(stream: string, what: string): string {
    if (!/^[a-z0-9_-]{1,64}$/.test(stream))
      throw new DeviceError('argument', 'stream: expected 1 to 64 lower-case letters, digits, _ and -');
    return `/v1/streams/${stream}/${what}`;
  }

  policy(stream: string, signal?: AbortSignal): Promise<string> {
    return this.#call({ path: this.#path(stream, 'policy'), limit: LIMITS.policy, signal });
  }

  async values(stream: string): Promise<string[] | null> {
    const answer = await this.#call({ path: this.#path(stream, 'values'), limit: LIMITS.long });
    return (JSON.parse(answer) as { names: string[] | null }).names;
  }

  async questions(stream: string, after?: number, wait = 0, signal?: AbortSignal): Promise<OpenQuestions> {
    const path = this.#path(stream, 'questions');
    const answer = await this.#call({
      path: after === undefined ? path : `${path}?after=${after}&wait=${wait}`,
      limit: LIMITS.long,
      wait: wait * 1000,
      signal,
    });
    try {
      const open = JSON.parse(answer) as OpenQuestions;
      if (Array.isArray(open.questions) && Number.isSafeInteger(open.round)) return open;
    } catch {
      // As any other answer that is not understood.
    }
    throw new DeviceError('answer', "the service's questions are not understood");
  }

  async send(stream: string, batch: Uint8Array, before: number, signal?: AbortSignal): Promise<Receipt> {
    const body = new Uint8Array(batch);
    const path = this.#path(stream, 'reports');
    return JSON.parse(await this.#call({ path, limit: LIMITS.short, body, type: BATCH, before, signal })) as Receipt;
  }

  /** Draws tokens, in one attempt: other tabs wait meanwhile, and the same draw can be asked for again. */
  draw(stream: string, request: string): Promise<string> {
    const path = this.#path(stream, 'tokens');
    return this.#call({
      path,
      limit: LIMITS.short,
      body: request,
      type: 'application/json',
      attempts: 1,
      timeout: 5_000,
    });
  }

  /** The signed time. It is worthless when it comes late, so there is one attempt. */
  time(nonce: string): Promise<string> {
    const path = `/v1/time?nonce=${encodeURIComponent(nonce)}`;
    return this.#call({ path, limit: LIMITS.short, attempts: 1, timeout: 5_000 });
  }

  /** Tries until there is an answer or the attempts are used up; each attempt sends the same bytes. */
  async #call(call: Call): Promise<string> {
    const attempts = call.attempts ?? this.#attempts;
    for (let attempt = 1; ; attempt++) {
      const failed = await this.#attempt(call);
      if ('answer' in failed) return failed.answer;
      const wait = Math.min(Math.max(backOff(attempt), failed.notBefore), LONGEST_PAUSE);
      if (attempt >= attempts || (call.before !== undefined && Date.now() + wait >= call.before))
        throw new DeviceError('unavailable', `${this.#base} is not available, tried ${attempt} times: ${failed.why}`);
      await pause(wait, call.signal);
    }
  }

  async #attempt(call: Call): Promise<{ answer: string } | { why: string; notBefore: number }> {
    const timeout = AbortSignal.timeout((call.timeout ?? this.#timeout) + (call.wait ?? 0));
    const headers: Record<string, string> = {};
    if (this.#token !== undefined) headers['authorization'] = `Bearer ${this.#token}`;
    if (call.type !== undefined) headers['content-type'] = call.type;
    let response: Response;
    try {
      response = await fetch(this.#base + call.path, {
        method: call.body === undefined ? 'GET' : 'POST',
        ...(call.body === undefined ? {} : { body: call.body }),
        headers,
        signal: call.signal ? AbortSignal.any([call.signal, timeout]) : timeout,
        cache: 'no-store',
        credentials: 'omit',
        // The token stays here.
        redirect: 'error',
        referrerPolicy: 'no-referrer',
      });
      if (response.ok) return { answer: await text(response, call.limit) };
    } catch (error) {
      call.signal?.throwIfAborted();
      if (error instanceof DeviceError) throw error;
      return { why: error instanceof Error ? error.message : String(error), notBefore: 0 };
    }
    const problem = await text(response, LIMITS.short)
      .then((body) => JSON.parse(body) as { error?: unknown; message?: unknown })
      .catch(() => null);
    const message = String(problem?.message ?? response.status)
      .replace(/\p{Cc}/gu, '')
      .slice(0, 300);
    if (response.status >= 500 || response.status === 408 || response.status === 429) {
      const seconds = Number(response.headers.get('retry-after') ?? 0);
      return { why: `${response.status}: ${message}`, notBefore: seconds > 0 ? seconds * 1000 : 0 };
    }
    throw new DeviceError('refused_by_service', `the service refuses (${response.status}): ${message}`);
  }
}
