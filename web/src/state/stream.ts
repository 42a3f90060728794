// One stream while it is shown: its declaration, its releases, and the feed that continues them.

import { signal, type Signal } from '@preact/signals';
import { ApiError, isAbort, streamPath } from '../api/client';
import { follow, type FeedState } from '../api/feed';
import { getReleases, getStream, type Page } from '../api/routes';
import type { AnswerRecord, ReleaseRecord, Spec, Stream } from '../api/types';
import { namesOf } from '../data/domain';
import { clockOf, Series } from '../data/series';

/** Most numbers of a stream that are kept: some 60 MB. */
const MOST_NUMBERS = 4_000_000;
const MOST_RELEASES = 20_000;

const now = (): number => Date.now() / 1000;

export class StreamState {
  readonly stream: Signal<Stream | null> = signal(null);
  readonly series: Signal<Series | null> = signal(null);
  /** Changes with every release. */
  readonly version = signal(0);
  readonly feed = signal<FeedState>('connecting');
  readonly error = signal<unknown>(null);
  readonly loading = signal(true);
  /** The last message of a monitor. */
  readonly message = signal<AnswerRecord | null>(null);
  /** Time from which on releases are loaded, in seconds since 1970. */
  private loadedFrom = Infinity;
  private wanted = 0;
  private reading: Promise<void> | null = null;
  private readonly stop = new AbortController();
  private lastNumber = 0;
  /** Releases of the feed that wait for `catchUp`; null from then on. */
  private held: ReleaseRecord[] | null = [];
  /** Releases of the feed that came while the past was read. */
  private readonly recent: ReleaseRecord[] = [];

  constructor(readonly name: string) {}

  /** Reads the stream and so many seconds of its past, and follows it from then on. */
  async start(seconds: number): Promise<void> {
    this.wanted = seconds;
    try {
      this.stream.value = await getStream(this.name, this.stop.signal);
    } catch (error) {
      this.fail(error);
      return;
    }
    let isFirst = true;
    void this.read();
    void follow(`${streamPath(this.name)}/feed`, 'now', this.stop.signal, {
      take: (event) => {
        if (event.event === 'release') this.take(JSON.parse(event.data) as ReleaseRecord);
        else if (event.event === 'monitor') this.message.value = JSON.parse(event.data) as AnswerRecord;
      },
      state: (state, error) => {
        this.feed.value = state;
        if (state === 'live' && isFirst) {
          isFirst = false;
          void this.catchUp();
        }
        if (state === 'ended' && error instanceof ApiError) this.fail(error);
      },
    });
  }

  close(): void {
    this.stop.abort();
  }

  /** Loads more of the past if it is not loaded yet. */
  need(seconds: number): void {
    // Time goes on: what reached back so far is not read again for a tick more.
    const from = now() - seconds + (this.stream.value?.tick ?? 0);
    if (from >= this.loadedFrom || (this.reading && seconds <= this.wanted)) return;
    this.wanted = seconds;
    if (!this.reading) void this.read();
  }

  /** Takes over a spec that the service has just accepted. */
  declared(spec: Spec): void {
    const stream = this.stream.value;
    if (stream) this.stream.value = { ...stream, spec };
  }

  async reload(): Promise<void> {
    try {
      this.stream.value = await getStream(this.name, this.stop.signal);
    } catch (error) {
      if (!isAbort(error)) this.error.value = error;
    }
  }

  /** Reads what was published between the read of the past and the opening of the feed. */
  private async catchUp(): Promise<void> {
    await this.reading;
    const series = this.series.value;
    if (!series) return;
    try {
      const after = this.lastNumber;
      const { releases } = await getReleases(this.name, { after, limit: 10_000 }, this.stop.signal);
      // What the feed brought meanwhile is later than these, or among them.
      for (const record of [...releases, ...(this.held ?? [])]) series.push(record);
      this.held = null;
      this.version.value += 1;
    } catch (error) {
      this.fail(error);
    }
  }

  private read(): Promise<void> {
    this.loading.value = true;
    this.reading = this.history(this.wanted)
      .catch((error: unknown) => this.fail(error))
      .finally(() => {
        this.reading = null;
        this.loading.value = false;
        if (now() - this.wanted + 60 < this.loadedFrom && this.error.value === null) void this.read();
      });
    return this.reading;
  }

  private async history(seconds: number): Promise<void> {
    const began = now();
    const stream = this.stream.value!;
    const values = Math.max(namesOf(stream.spec).length, 1);
    const most = Math.max(Math.min(MOST_RELEASES, Math.floor(MOST_NUMBERS / (values * 2))), 1);
    const ticks = Math.min(Math.ceil(seconds / stream.tick) + 1, most);
    const series = new Series(namesOf(stream.spec), clockOf(stream), most);
    const signal = this.stop.signal;
    let page: Page = { last: ticks, limit: Math.min(ticks, 10_000) };
    for (;;) {
      const { releases, next } = await getReleases(this.name, page, signal);
      for (const record of releases) series.push(record);
      this.lastNumber = Math.max(this.lastNumber, releases.at(-1)?.number ?? 0);
      if (next === null || !releases.length) break;
      page = { after: next, limit: 10_000 };
    }
    // What the feed brought since this read began: the series before has it.
    for (const record of this.recent) series.push(record);
    this.recent.length = 0;
    this.loadedFrom = began - seconds;
    this.series.value = series;
    this.version.value += 1;
    this.error.value = null;
  }

  private take(record: ReleaseRecord): void {
    if (this.held) {
      this.held.push(record);
      return;
    }
    if (this.reading) this.recent.push(record);
    if (this.series.value?.push(record)) this.version.value += 1;
    const stream = this.stream.value;
    if (stream) this.stream.value = { ...stream, version: record.version, published: stream.published + 1 };
  }

  private fail(error: unknown): void {
    if (this.stop.signal.aborted) return;
    this.loading.value = false;
    this.error.value = error;
  }
}
