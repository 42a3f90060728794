// One stream: what was released, what it costs, what is asked of it, and what an operator may do with it.

import { useEffect, useMemo } from 'preact/hooks';
import { ApiError } from '../api/client';
import type { Stream } from '../api/types';
import type { FeedState } from '../api/feed';
import { duration, figure } from '../data/format';
import { isNumbers } from '../data/domain';
import { PRESETS } from '../data/ranges';
import { addressOf, param, route } from '../state/route';
import { mayOperate } from '../state/session';
import { StreamState } from '../state/stream';
import { Empty, Failed, Note, StatusChip } from '../ui/parts';
import { ChartTab } from './stream/ChartTab';
import { ManageTab } from './stream/ManageTab';
import { PromiseTab } from './stream/PromiseTab';
import { QueriesTab } from './stream/QueriesTab';

const TABS = [
  { key: 'releases', label: 'Releases' },
  { key: 'promise', label: 'Promise and budget' },
  { key: 'queries', label: 'Queries and alarms' },
  { key: 'manage', label: 'Manage' },
] as const;

/** Seconds that a range of the address needs. */
export function neededSeconds(tick: number): number {
  const preset = PRESETS.find(({ key }) => key === param('last'));
  if (preset) return preset.seconds;
  const from = Number(param('from') ?? NaN);
  if (Number.isFinite(from)) return Math.max(Date.now() / 1000 - from, 0) + tick;
  return Math.max(86_400, tick * 60);
}

export function StreamView(props: { name: string }) {
  const state = useMemo(() => new StreamState(props.name), [props.name]);
  useEffect(() => {
    void state.start(neededSeconds(60));
    return () => state.close();
  }, [state]);
  const stream = state.stream.value;
  const error = state.error.value;
  if (!stream) {
    if (error instanceof ApiError && error.status === 404) {
      return (
        <Empty title="There is no such stream">
          <p>It may have another name, or this service never had it.</p>
          <a class="button" href="#/">
            All streams
          </a>
        </Empty>
      );
    }
    if (error !== null)
      return <Failed what="The stream cannot be read" error={error} retry={() => location.reload()} />;
    return (
      <p class="soft" role="status">
        Loading…
      </p>
    );
  }
  const tab = route.value.path[2] ?? 'releases';
  return (
    <>
      <Head stream={stream} feed={state.feed.value} />
      {error !== null && <Failed what="Releases cannot be read" error={error} />}
      <nav class="tabs" aria-label="About this stream">
        {TABS.filter(({ key }) => key !== 'manage' || mayOperate.value).map(({ key, label }) => (
          <a
            key={key}
            href={addressOf(['streams', props.name, ...(key === 'releases' ? [] : [key])])}
            aria-current={tab === key ? 'page' : undefined}
          >
            {label}
          </a>
        ))}
      </nav>
      {tab === 'releases' && <ChartTab state={state} stream={stream} />}
      {tab === 'promise' && <PromiseTab state={state} stream={stream} />}
      {tab === 'queries' && <QueriesTab state={state} stream={stream} />}
      {tab === 'manage' && mayOperate.value && <ManageTab state={state} stream={stream} />}
    </>
  );
}

const FEEDS: Record<FeedState, { label: string; kind: string; title: string }> = {
  live: { label: 'live', kind: 'good', title: 'Releases appear here as they are published' },
  connecting: { label: 'connecting', kind: '', title: 'The feed is being opened' },
  waiting: {
    label: 'reconnecting',
    kind: 'warn',
    title: 'The service does not answer; nothing is missed when it is back',
  },
  ended: { label: 'not live', kind: 'bad', title: 'The service ended the feed' },
};

function Head(props: { stream: Stream; feed: FeedState }) {
  const { stream } = props;
  const { spec } = stream;
  const feed = FEEDS[props.feed];
  const domain = isNumbers(spec.domain)
    ? `numbers from ${figure(Number(spec.domain.low))} to ${figure(Number(spec.domain.high))}`
    : `${Array.isArray(spec.domain) ? spec.domain.length : (spec.domain ?? 0)} values`;
  return (
    <div class="stream-head">
      <div class="row">
        <h1>{stream.name}</h1>
        <StatusChip status={stream.status} problem={stream.problem !== null} />
        {stream.status === 'running' && (
          <span class={`chip ${feed.kind}`} role="status" title={feed.title}>
            <span aria-hidden="true" class={props.feed === 'live' ? 'pulse' : ''}>
              ●
            </span>{' '}
            {feed.label}
          </span>
        )}
      </div>
      <p class="soft">
        {spec.family}.{spec.mechanism} · {domain} · a tick is {duration(stream.tick)}
        {spec.epsilon !== undefined && ` · ε ${figure(Number(spec.epsilon))}`}
        {spec.window !== undefined && ` in ${spec.window} ticks`}
        {spec.classes && ` · ${spec.classes.length} classes`}
      </p>
      {stream.problem !== null && <Note kind="bad">{stream.problem}</Note>}
      {stream.backfill && stream.status === 'running' && stream.open === null && stream.published > 0 && (
        <Note>This stream takes its history. An operator resumes it to make it live.</Note>
      )}
    </div>
  );
}
