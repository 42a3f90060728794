// All streams at a glance: a virtual list, for there may be thousands.

import { useComputed, useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { getOverview, getSparklines } from '../api/routes';
import type { OverviewRow, SparklineData } from '../api/types';
import { isUncounted, UNCOUNTED } from '../data/counted';
import { ago, moment, percent, whole } from '../data/format';
import { compare, FILTERS, isLate, matches, ORDERS, type Filter, type Order } from '../data/filter';
import { Sparkline } from '../charts/small';
import { addressOf, param, setParams } from '../state/route';
import { usePolled } from '../state/poll';
import { mayOperate } from '../state/session';
import { Empty, Failed, Meter, StatusChip } from '../ui/parts';

const EVERY = 5_000;
const ROW = 60;
const TALL_ROW = 92;
const POINTS = 30;
const NAMES: Record<Filter, string> = {
  all: 'All',
  running: 'Running',
  paused: 'Paused',
  retired: 'Retired',
  alarms: 'With alarms',
  attention: 'Needs attention',
};

const narrow = matchMedia('(max-width: 60rem)');

const oneOf = <T extends string>(options: readonly T[], text: string | null, usual: T): T =>
  options.find((option) => option === text) ?? usual;

export function OverviewView() {
  const { value, error, again } = usePolled(getOverview, EVERY);
  const search = param('q') ?? '';
  const filter = oneOf(FILTERS, param('show'), 'all');
  const order = oneOf(ORDERS, param('by'), 'name');
  const all = value.value?.streams;
  const rows = useMemo(
    () => (all ?? []).filter((row) => matches(row, search, filter)).sort((one, other) => compare(one, other, order)),
    [all, search, filter, order],
  );
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const slash = (event: KeyboardEvent): void => {
      const within = event.target instanceof HTMLElement && event.target.closest('input, textarea, select');
      if (event.key !== '/' || within || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      box.current?.focus();
    };
    addEventListener('keydown', slash);
    return () => removeEventListener('keydown', slash);
  }, []);

  return (
    <>
      <div class="overview-tools">
        <h1 class="hidden">Streams</h1>
        <label class="field search">
          <span>Search</span>
          <input
            ref={box}
            type="search"
            value={search}
            placeholder="Name or mechanism ( / )"
            spellcheck={false}
            onInput={(event) => setParams({ q: event.currentTarget.value || null })}
          />
        </label>
        <label class="field">
          <span>Show</span>
          <select
            value={filter}
            onChange={(event) =>
              setParams({ show: event.currentTarget.value === 'all' ? null : event.currentTarget.value })
            }
          >
            {FILTERS.map((one) => (
              <option key={one} value={one}>
                {NAMES[one]}
              </option>
            ))}
          </select>
        </label>
        <p class="soft small" role="status">
          {all ? `${whole(rows.length)} of ${whole(all.length)} streams` : 'Loading…'}
        </p>
      </div>
      {error.value !== null && <Failed what="The streams cannot be read" error={error.value} retry={again} />}
      {all &&
        (rows.length ? (
          <List rows={rows} now={value.value!.now} order={order} />
        ) : (
          <Nothing hasStreams={all.length > 0} />
        ))}
    </>
  );
}

function Nothing(props: { hasStreams: boolean }) {
  if (props.hasStreams) {
    return (
      <Empty title="No stream fits">
        <button type="button" onClick={() => setParams({ q: null, show: null })}>
          Show all streams
        </button>
      </Empty>
    );
  }
  return (
    <Empty title="There are no streams yet">
      {mayOperate.value ? (
        <a class="button" href="#/create">
          Create a stream
        </a>
      ) : (
        <p>
          An operator creates streams, on this page or with <code>tidegate stream create</code>.
        </p>
      )}
    </Empty>
  );
}

const HEADS: { label: string; order?: Order }[] = [
  { label: 'Stream', order: 'name' },
  { label: 'Status', order: 'status' },
  { label: 'Most frequent value' },
  { label: 'Last release', order: 'last' },
  { label: 'Budget left', order: 'budget' },
  { label: 'Alarms', order: 'alarms' },
];

function List(props: { rows: OverviewRow[]; now: number; order: Order }) {
  const { rows, now, order } = props;
  const body = useRef<HTMLDivElement>(null);
  const isNarrow = useSignal(narrow.matches);
  const scroll = useSignal(0);
  const height = useSignal(innerHeight);
  useEffect(() => {
    // Only whole rows matter, so most scroll events change nothing.
    const read = (): void => {
      const above = -(body.current?.getBoundingClientRect().top ?? 0);
      const row = narrow.matches ? TALL_ROW : ROW;
      isNarrow.value = narrow.matches;
      height.value = innerHeight;
      scroll.value = Math.max(Math.floor(above / row), 0);
    };
    addEventListener('scroll', read, { passive: true });
    addEventListener('resize', read);
    read();
    return () => {
      removeEventListener('scroll', read);
      removeEventListener('resize', read);
    };
  }, []);
  const row = isNarrow.value ? TALL_ROW : ROW;
  const first = Math.max(Math.min(scroll.value, rows.length - 1) - 4, 0);
  const last = Math.min(scroll.value + Math.ceil(height.value / row) + 4, rows.length);
  const sparklines = useSparklines(rows, first, last);

  const keys = (event: KeyboardEvent): void => {
    const by: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: 10,
      PageUp: -10,
      Home: -1e9,
      End: 1e9,
    };
    const step = by[event.key];
    const at = Number((event.target as HTMLElement).closest<HTMLElement>('[data-row]')?.dataset.row ?? NaN);
    if (step === undefined || Number.isNaN(at)) return;
    event.preventDefault();
    const target = Math.min(Math.max(at + step, 0), rows.length - 1);
    const top = scrollY + body.current!.getBoundingClientRect().top + target * row;
    if (top < scrollY + 120 || top > scrollY + innerHeight - 2 * row) scrollTo({ top: top - innerHeight / 2 });
    requestAnimationFrame(() =>
      requestAnimationFrame(() =>
        body.current?.querySelector<HTMLElement>(`[data-row="${target}"] a`)?.focus({ preventScroll: true }),
      ),
    );
  };

  return (
    <div class="list" role="table" aria-label="Streams" aria-rowcount={rows.length + 1} onKeyDown={keys}>
      <div class="head" role="row" aria-rowindex={1}>
        {HEADS.map((head) => (
          <span key={head.label} role="columnheader" aria-sort={head.order === order ? 'ascending' : 'none'}>
            {head.order ? (
              <button type="button" onClick={() => setParams({ by: head.order === 'name' ? null : head.order! })}>
                {head.label}
                {head.order === order ? ' ↓' : ''}
              </button>
            ) : (
              head.label
            )}
          </span>
        ))}
      </div>
      <div ref={body} class="body" role="rowgroup" style={{ height: `${rows.length * row}px` }}>
        {rows.slice(first, last).map((one, place) => (
          <Row
            key={one.name}
            row={one}
            place={first + place}
            top={(first + place) * row}
            now={now}
            spark={sparklines.value.get(one.name)?.data}
          />
        ))}
      </div>
    </div>
  );
}

type Known = Map<string, { version: number; data: SparklineData }>;

/** Sparklines of the rows in view; those that have a new release are read again. */
function useSparklines(rows: OverviewRow[], first: number, last: number) {
  const known = useSignal<Known>(new Map());
  const wanted = rows.slice(first, last).filter((row) => {
    return row.last !== null && known.value.get(row.name)?.version !== row.last.timestamp;
  });
  const names = wanted.map((row) => `${row.name}@${row.last!.timestamp}`).join();
  useEffect(() => {
    if (!wanted.length) return;
    const stop = new AbortController();
    // While somebody scrolls, rows pass by that nobody looks at.
    const timer = setTimeout(async () => {
      try {
        const found = await getSparklines(
          wanted.slice(0, 50).map((row) => row.name),
          POINTS,
          stop.signal,
        );
        const byName = new Map(found.map((data) => [data.stream, data]));
        const all: Known = new Map(known.value.size > 500 ? [] : known.value);
        const none = { value: null, timestamps: [], values: [], deviations: [], freshness: [] };
        for (const { name, last } of wanted.slice(0, 50)) {
          all.set(name, { version: last!.timestamp, data: byName.get(name) ?? { stream: name, ...none } });
        }
        known.value = all;
      } catch {
        // The list says what is wrong with the service; the next round tries again.
      }
    }, 80);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [names]);
  return useComputed(() => known.value);
}

function Row(props: { row: OverviewRow; place: number; top: number; now: number; spark: SparklineData | undefined }) {
  const { row, now, spark } = props;
  const { last, alarms } = row;
  const late = isLate(row);
  return (
    <div
      class="item"
      role="row"
      aria-rowindex={props.place + 2}
      data-row={props.place}
      style={{ transform: `translateY(${props.top}px)` }}
    >
      <div class="cell" role="cell">
        <a href={addressOf(['streams', row.name])}>{row.name}</a>
        <small>
          {row.family}.{row.mechanism}
        </small>
      </div>
      <div class="cell" role="cell">
        <StatusChip status={row.status} problem={row.problem} />
      </div>
      <div class="cell wide" role="cell">
        {spark && isUncounted(row.family, spark.freshness, spark.values) ? (
          <small>{UNCOUNTED}</small>
        ) : spark && spark.values.length > 0 ? (
          <>
            <Sparkline
              values={spark.values}
              deviations={spark.deviations}
              label={`The last ${spark.values.length} releases${spark.value === null ? '' : ` of ${spark.value}`}`}
            />
            <small>{spark.value ?? 'the number'}</small>
          </>
        ) : null}
      </div>
      <div class="cell wide" role="cell">
        {last ? <time title={moment(last.through, row.tick)}>{ago(last.through, now)}</time> : '–'}
        <small class={late || last?.suspicious ? 'warn' : ''}>
          {late ? `late by ${whole(row.lag!)} s` : last?.suspicious ? 'suspicious' : (last?.freshness ?? 'nothing yet')}
        </small>
      </div>
      <div class="cell" role="cell">
        {row.budget_left === null ? (
          <span class="soft">each its own</span>
        ) : (
          <div class="meter">
            <span>{percent(row.budget_left)}</span>
            <Meter share={row.budget_left} label={`${percent(row.budget_left)} of the budget left`} />
          </div>
        )}
      </div>
      <div class="cell" role="cell">
        {alarms && alarms.active > 0 && <span class="chip bad">{alarms.active} active</span>}
        {alarms && alarms.active === 0 && alarms.unacknowledged > 0 && (
          <span class="chip warn">{alarms.unacknowledged} new</span>
        )}
        {alarms && alarms.active === 0 && alarms.unacknowledged === 0 && <span class="soft">none</span>}
        {!alarms && <span class="soft">–</span>}
      </div>
    </div>
  );
}
