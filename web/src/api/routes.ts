// The routes of the service that this page uses.

import { json, request, streamPath } from './client';
import type {
  Advice,
  Alarm,
  Answer,
  Cluster,
  Declaration,
  Operations,
  Overview,
  OverviewRow,
  PromiseInfo,
  QuerySpec,
  ReleaseRecord,
  SparklineData,
  Stream,
  TokenInfo,
} from './types';

type Signal = AbortSignal | undefined;
const withSignal = (signal: Signal): { signal?: AbortSignal } => (signal ? { signal } : {});

export const getToken = (signal?: Signal): Promise<TokenInfo> => json('v1/token', withSignal(signal));

/** All streams, page by page. */
export async function getOverview(signal?: Signal): Promise<{ now: number; streams: OverviewRow[] }> {
  const streams: OverviewRow[] = [];
  let after: string | null = null;
  for (;;) {
    const page: Overview = await json(
      `v1/overview${after === null ? '' : `?after=${encodeURIComponent(after)}`}`,
      withSignal(signal),
    );
    streams.push(...page.streams);
    if (page.next === null) return { now: page.now, streams };
    after = page.next;
  }
}

/** At most 50 streams. */
export async function getSparklines(streams: string[], points: number, signal?: Signal): Promise<SparklineData[]> {
  const body = { streams, points };
  const answer = await json<{ sparklines: SparklineData[] }>('v1/overview/sparklines', {
    method: 'POST',
    body,
    ...withSignal(signal),
  });
  return answer.sparklines;
}

export const getStream = (name: string, signal?: Signal): Promise<Stream> => json(streamPath(name), withSignal(signal));

export interface Page {
  from?: number;
  to?: number;
  after?: number;
  last?: number;
  limit?: number;
}

function query(page: Page & { format?: string }): string {
  const pairs = Object.entries(page).filter(([, value]) => value !== undefined);
  return pairs.map(([key, value]) => `${key}=${encodeURIComponent(String(value))}`).join('&');
}

export interface ReleasePage {
  values: string[] | null;
  releases: ReleaseRecord[];
  next: number | null;
}

export const getReleases = (name: string, page: Page, signal?: Signal): Promise<ReleasePage> =>
  json(`${streamPath(name)}/releases?${query(page)}`, withSignal(signal));

/** All pages of releases as CSV or NDJSON, as the service writes them. */
export async function releasesText(name: string, format: 'csv' | 'ndjson', page: Page): Promise<string> {
  let text = '';
  let after: string | null = null;
  for (;;) {
    const asked = after === null ? page : { ...page, after: Number(after) };
    const response = await request(`${streamPath(name)}/releases?${query({ ...asked, format })}`);
    const part = await response.text();
    // Each page of CSV has a header.
    text += after !== null && format === 'csv' ? part.slice(part.indexOf('\n') + 1) : part;
    after = response.headers.get('tidegate-next');
    if (after === null) return text;
  }
}

export const getPromise = (name: string, last: number, signal?: Signal): Promise<PromiseInfo> =>
  json(`${streamPath(name)}/promise?last=${last}`, withSignal(signal));

export async function getAlarms(name: string, signal?: Signal): Promise<Alarm[]> {
  return (await json<{ alarms: Alarm[] }>(`${streamPath(name)}/alarms`, withSignal(signal))).alarms;
}

export const acknowledge = (name: string, number: number): Promise<Alarm> =>
  json(`${streamPath(name)}/alarms/${number}/acknowledge`, { method: 'POST' });

export const ask = (name: string, body: QuerySpec & { at?: number }, signal?: Signal): Promise<Answer> =>
  json(`${streamPath(name)}/query`, { method: 'POST', body, ...withSignal(signal) });

/** The declaration with its tag, which a later change must name. */
export async function getDeclaration(name: string): Promise<{ declaration: Declaration; tag: string | null }> {
  const response = await request(`${streamPath(name)}/declaration`);
  return { declaration: (await response.json()) as Declaration, tag: response.headers.get('etag') };
}

/** Creates a stream; fails with 412 if there is one of that name. */
export const create = (declaration: Declaration): Promise<Stream> =>
  json('v1/streams', { method: 'POST', body: declaration, headers: { 'if-none-match': '*' } });

/** Changes what may change of a stream whose declaration still has that tag. */
export const declare = (declaration: Declaration, tag: string | null): Promise<Stream> =>
  json('v1/streams', { method: 'POST', body: declaration, headers: tag ? { 'if-match': tag } : {} });

export const setStatus = (name: string, action: 'pause' | 'resume' | 'retire'): Promise<Stream> =>
  json(`${streamPath(name)}/${action}`, { method: 'POST' });

export interface AdviceRequest {
  declaration: Omit<Declaration, 'spec'> & { spec: Omit<Declaration['spec'], 'mechanism'> & { mechanism?: string } };
  population?: number;
  metric?: string;
}

export const advise = (body: AdviceRequest, signal?: Signal): Promise<Advice> =>
  json('v1/advise', { method: 'POST', body, ...withSignal(signal) });

export const getOperations = (signal?: Signal): Promise<Operations> => json('v1/operations', withSignal(signal));

export const getCluster = (signal?: Signal): Promise<Cluster> => json('v1/cluster', withSignal(signal));
