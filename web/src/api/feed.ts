// Server-sent events by `fetch`, which can send a token, unlike EventSource.

import { ApiError, isAbort, request } from './client';

export interface FeedEvent {
  id: string | null;
  event: string;
  data: string;
}

/** Splits a stream of text into events, as the standard of server-sent events says. */
export class EventParser {
  private rest = '';
  private lastId: string | null = null;
  private event = '';
  private data: string[] = [];

  push(text: string): FeedEvent[] {
    this.rest += text;
    const found: FeedEvent[] = [];
    for (;;) {
      const end = this.rest.search(/\r\n|\n|\r(?!$)/);
      if (end < 0) return found;
      const line = this.rest.slice(0, end);
      this.rest = this.rest.slice(end + (this.rest.startsWith('\r\n', end) ? 2 : 1));
      const done = this.line(line);
      if (done) found.push(done);
    }
  }

  private line(line: string): FeedEvent | null {
    if (line === '') {
      const done = this.data.length
        ? { id: this.lastId, event: this.event || 'message', data: this.data.join('\n') }
        : null;
      this.event = '';
      this.data = [];
      return done;
    }
    if (line.startsWith(':')) return null;
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.event = value;
    else if (field === 'data') this.data.push(value);
    else if (field === 'id' && !value.includes('\0')) this.lastId = value;
    return null;
  }
}

export type FeedState = 'connecting' | 'live' | 'waiting' | 'ended';

export interface Follower {
  take(event: FeedEvent): void;
  state(state: FeedState, error?: unknown): void;
}

/** The service sends a comment every 15 seconds: a longer silence means that the connection is dead. */
const SILENCE = 40_000;
const LONGEST_WAIT = 15_000;

/**
 * Follows a feed until `signal` is aborted. After a break it continues behind the last event, so it misses nothing.
 * `since` is the id of the last event that is known, or where to begin.
 */
export async function follow(path: string, since: string, signal: AbortSignal, follower: Follower): Promise<void> {
  let id: string | null = /^\d+-\d+$/.test(since) ? since : null;
  let failures = 0;
  while (!signal.aborted) {
    follower.state('connecting');
    const attempt = new AbortController();
    const stop = (): void => attempt.abort();
    signal.addEventListener('abort', stop);
    let silence = setTimeout(stop, SILENCE);
    try {
      const headers: Record<string, string> = id ? { 'last-event-id': id } : {};
      const address = id ? path : `${path}?since=${since}`;
      const response = await request(address, { headers, signal: attempt.signal });
      follower.state('live');
      const parser = new EventParser();
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        failures = 0;
        clearTimeout(silence);
        silence = setTimeout(stop, SILENCE);
        for (const event of parser.push(value)) {
          if (event.id) id = event.id;
          follower.take(event);
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      const isFinal = error instanceof ApiError && [401, 403, 404].includes(error.status);
      follower.state(isFinal ? 'ended' : 'waiting', isAbort(error) ? undefined : error);
      if (isFinal) return;
    } finally {
      clearTimeout(silence);
      signal.removeEventListener('abort', stop);
    }
    if (signal.aborted) return;
    follower.state('waiting');
    await pause(Math.min(500 * 2 ** failures++, LONGEST_WAIT), signal);
  }
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });
}
