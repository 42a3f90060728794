import { afterEach, describe, expect, it, vi } from 'vitest';
import { EventParser, follow, type FeedEvent, type FeedState } from '../src/api/feed';
import { addressOf, parseRoute } from '../src/state/route';
import { roleOf, takeToken } from '../src/state/session';
import { escaped } from '../src/charts/svg';

describe('server-sent events', () => {
  const events =
    'event: release\nid: 1-0\ndata: {"a":1}\n\n: still here\n\nevent: answer\r\nid: 1-1\r\ndata: x\r\ndata: y\r\n\r\n';

  it('are the same however the text is cut', () => {
    const whole = new EventParser().push(events);
    expect(whole).toEqual([
      { id: '1-0', event: 'release', data: '{"a":1}' },
      { id: '1-1', event: 'answer', data: 'x\ny' },
    ]);
    for (let size = 1; size < 12; size++) {
      const parser = new EventParser();
      const found: FeedEvent[] = [];
      for (let place = 0; place < events.length; place += size)
        found.push(...parser.push(events.slice(place, place + size)));
      expect(found).toEqual(whole);
    }
  });

  afterEach(() => vi.unstubAllGlobals());

  it('continue behind the last event after a break', async () => {
    const asked: [string, string | null][] = [];
    const stop = new AbortController();
    const replies = ['event: release\nid: 7-3\ndata: 1\n\n', 'event: release\nid: 8-3\ndata: 2\n\n'];
    vi.stubGlobal('fetch', async (path: string, init: RequestInit) => {
      asked.push([path, new Headers(init.headers).get('last-event-id')]);
      const text = replies.shift();
      if (text === undefined) {
        stop.abort();
        throw new TypeError('down');
      }
      return new Response(text);
    });
    const taken: string[] = [];
    const states: FeedState[] = [];
    await follow('v1/streams/x/feed', 'now', stop.signal, {
      take: (event) => taken.push(event.data),
      state: (state) => states.push(state),
    });
    expect(taken).toEqual(['1', '2']);
    expect(asked).toEqual([
      ['v1/streams/x/feed?since=now', null],
      ['v1/streams/x/feed', '7-3'],
      ['v1/streams/x/feed', '8-3'],
    ]);
    expect(states.slice(0, 3)).toEqual(['connecting', 'live', 'waiting']);
  });

  it('end for good when the token is refused', async () => {
    vi.stubGlobal('fetch', async () => new Response('{"error":"token","message":"no"}', { status: 401 }));
    const states: FeedState[] = [];
    await follow('x', 'now', new AbortController().signal, {
      take: () => undefined,
      state: (state) => states.push(state),
    });
    expect(states).toEqual(['connecting', 'ended']);
  });
});

describe('addresses', () => {
  it('come back as they were', () => {
    const address = addressOf(['streams', 'a b/ü'], { of: '1,2-4', view: 'heat', last: null, empty: '' });
    expect(address).toBe('#/streams/a%20b%2F%C3%BC?of=1,2-4&view=heat');
    const { path, params } = parseRoute(address);
    expect(path).toEqual(['streams', 'a b/ü']);
    expect(Object.fromEntries(params)).toEqual({ of: '1,2-4', view: 'heat' });
    expect(parseRoute('').path).toEqual([]);
    expect(parseRoute('#/%E0%A4%A').path).toEqual(['%E0%A4%A']);
  });

  it('give up a token, and keep the rest', () => {
    expect(takeToken('#token=tg_a_x')).toEqual({ token: 'tg_a_x', rest: '' });
    expect(takeToken('#/streams/x?view=heat&token=tg_a_x')).toEqual({
      token: 'tg_a_x',
      rest: '#/streams/x?view=heat',
    });
    expect(takeToken('#/streams/x')).toEqual({ token: null, rest: '#/streams/x' });
  });
});

describe('tokens and texts', () => {
  it('show their role', () => {
    expect(['tg_o_a1', 'tg_a_b2', 'tg_i_c3'].map(roleOf)).toEqual(['operator', 'analyst', 'ingest']);
    expect(['tg_x_a', 'tg_a_', 'tg_a_a b', ''].map(roleOf)).toEqual([null, null, null, null]);
  });

  it('of users never become markup', () => {
    expect(escaped(`<img src=x onerror="a">&'`)).toBe('&lt;img src=x onerror=&quot;a&quot;&gt;&amp;&#39;');
  });
});
