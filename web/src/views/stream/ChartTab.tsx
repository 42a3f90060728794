import { useEffect, useMemo } from 'preact/hooks';
import type { Stream } from '../../api/types';
import { newView } from '../../charts/view';
import { HeatMap } from '../../charts/HeatMap';
import { TimePlot } from '../../charts/TimePlot';
import type { TimeChartData } from '../../charts/time';
import { TreeView } from '../../charts/TreeView';
import { isSeriesUncounted, UNCOUNTED } from '../../data/counted';
import { moment, percent, sentence } from '../../data/format';
import { pickText, type Line } from '../../data/lines';
import { clampRange, pan, PRESETS, zoom, type Range } from '../../data/ranges';
import { CONFIDENCES, type Series } from '../../data/series';
import { sendingOf } from '../../data/sending';
import { param, setParams } from '../../state/route';
import type { StreamState } from '../../state/stream';
import { Copyable, Segments } from '../../ui/parts';
import { seriesName } from '../../ui/theme';
import { neededSeconds } from '../Stream';
import { Downloads } from './Downloads';
import {
  allOf,
  amountOf,
  confidenceOf,
  gapOf,
  linesOf,
  picksOf,
  rangeOf,
  viewOf,
  viewsFor,
  type ViewName,
} from './model';
import { ReleaseTable } from './ReleaseTable';
import { SpentPlot } from './SpentPlot';
import { ValuePicker } from './ValuePicker';
import { WhyPanel } from './WhyPanel';

const LABELS: Record<ViewName, string> = {
  lines: 'Lines',
  stack: 'Stack',
  heat: 'Heat map',
  tree: 'Tree',
  table: 'Table',
};
const HEIGHT = 1000;
const LEAST_HEIGHT = 300;

export function ChartTab(props: { state: StreamState; stream: Stream }) {
  const { state, stream } = props;
  const series = state.series.value;
  const needed = neededSeconds(stream.tick);
  useEffect(() => state.need(needed), [needed]);
  if (!series)
    return (
      <div class="card" style={{ minHeight: '34rem' }}>
        <p class="soft" role="status">
          Loading releases…
        </p>
      </div>
    );
  if (series.length === 0) return <NothingYet stream={stream} title="Nothing is released yet" />;
  return <Charts state={state} stream={stream} series={series} version={state.version.value} />;
}

/** What to do while a stream has nothing to show. */
function NothingYet(props: { stream: Stream; title: string }) {
  const { stream } = props;
  const { what, command } = sendingOf(stream, location.origin);
  return (
    <section class="card stack" aria-label={props.title}>
      <h2>{props.title}</h2>
      {stream.status === 'running' ? (
        <>
          <p>{what}.</p>
          <Copyable label="Command" text={command} />
        </>
      ) : (
        <p>The stream does not run. An operator can resume it, unless it is retired.</p>
      )}
    </section>
  );
}

function Charts(props: { state: StreamState; stream: Stream; series: Series; version: number }) {
  const { state, stream, series, version } = props;
  const view = viewOf(series);
  const confidence = confidenceOf();
  const { range, isLive } = rangeOf(series, stream);
  const all = allOf(series, stream.tick);
  const charts = useMemo(() => newView(range), []);
  useEffect(() => void (charts.range.value = range), [range.from, range.to]);
  const of = param('of');
  const picks = useMemo(() => picksOf(series, view), [series, of, view === 'stack']);
  const lines = useMemo(() => linesOf(series, picks, confidence), [series, version, picks, confidence]);
  const at = param('at');
  const selected = at === null ? null : Number(at);
  const selectedPlace = selected === null ? -1 : series.placeOf(selected);
  const format = amountOf(series);
  const selectedSeconds = selectedPlace < 0 ? null : series.seconds[selectedPlace]!;
  const data = useMemo<TimeChartData>(
    () => ({
      seconds: series.seconds,
      freshness: series.freshness,
      suspicious: series.timestamps.map((timestamp) => series.suspicious.has(timestamp)),
      lines,
      isStack: view === 'stack',
      include: [],
      amount: format,
      tick: stream.tick,
      gap: gapOf(series, stream.tick),
      selected: selectedSeconds,
    }),
    [series, version, lines, view === 'stack', selectedSeconds],
  );

  const onRange = (next: Range): void => {
    const clamped = clampRange(next, all);
    const from = Math.round(clamped.from);
    const to = Math.round(Math.max(clamped.to, from + 1));
    // At once, for the next key; the address follows.
    charts.range.value = { from, to };
    setParams({ from: String(from), to: String(to), last: null });
  };
  const onPick = (seconds: number): void => {
    const place = series.nearest(seconds);
    setParams({ at: String(series.timestamps[place]) }, true);
  };
  const preset = isLive ? (PRESETS.find(({ key }) => key === param('last'))?.key ?? null) : null;
  const height = Math.max(LEAST_HEIGHT, Math.min(HEIGHT, innerHeight - 560));
  const common = { view: charts, all, height, onRange, onPick, label: `Releases of ${stream.name}` };
  const shownPlace = selectedPlace >= 0 ? selectedPlace : series.length - 1;
  const [firstPick] = picks;
  const uncounted = useMemo(() => isSeriesUncounted(stream.spec.family, series), [series, version]);

  return (
    <div class="chart-layout">
      <div class="stack">
        {uncounted && <NothingYet stream={stream} title={sentence(UNCOUNTED)} />}
        <div class="card stack">
          <div class="toolbar">
            <Segments
              label="View"
              value={view}
              onChange={(next) => setParams({ view: next }, true)}
              options={viewsFor(series).map((key) => ({ key, label: LABELS[key] }))}
            />
            <Segments
              label="Time"
              value={preset}
              onChange={(last) => setParams({ last, from: null, to: null }, true)}
              options={PRESETS.filter(({ seconds }) => seconds >= stream.tick * 5)}
            />
            <div class="group">
              <span aria-hidden="true">Move</span>
              <div class="segments" role="group" aria-label="Move and zoom">
                <button type="button" aria-label="Earlier" onClick={() => onRange(pan(range, -5))}>
                  ‹
                </button>
                <button type="button" aria-label="Later" onClick={() => onRange(pan(range, 5))}>
                  ›
                </button>
                <button type="button" aria-label="Zoom in" onClick={() => onRange(zoom(range, 0.6))}>
                  +
                </button>
                <button type="button" aria-label="Zoom out" onClick={() => onRange(zoom(range, 1 / 0.6))}>
                  −
                </button>
              </div>
            </div>
            <label class="group">
              <span>Interval</span>
              <select
                value={String(confidence)}
                onChange={(event) =>
                  setParams({
                    confidence: event.currentTarget.value === '0.95' ? null : event.currentTarget.value,
                  })
                }
              >
                {Object.keys(CONFIDENCES)
                  .sort()
                  .map((one) => (
                    <option key={one} value={one}>
                      {percent(Number(one))}
                    </option>
                  ))}
              </select>
            </label>
            <Downloads stream={stream} series={series} data={data} view={view} range={range} />
          </div>
          {view === 'heat' && (
            <HeatMap
              {...common}
              series={series}
              version={version}
              tick={stream.tick}
              selected={selectedSeconds}
              amount={format}
            />
          )}
          {view === 'tree' && (
            <>
              <h2>Tree at {moment(series.seconds[shownPlace]!, stream.tick)}</h2>
              <TreeView
                series={series}
                place={shownPlace}
                confidence={confidence}
                chosen={param('of') === null ? null : (firstPick ?? null)}
                onChoose={(pick) => setParams({ of: pickText(pick) })}
              />
            </>
          )}
          {(view === 'lines' || view === 'stack' || view === 'tree') && (
            <>
              <TimePlot
                {...common}
                data={data}
                height={view === 'tree' ? LEAST_HEIGHT : height}
                tooltip={(place) => <TooltipRows lines={lines} place={place} series={series} format={format} />}
              />
              <Legend lines={lines} isStack={view === 'stack'} />
              {view !== 'tree' && (
                <SpentPlot {...common} stream={stream} series={series} version={version} selected={selectedSeconds} />
              )}
            </>
          )}
          {view === 'table' && (
            <ReleaseTable
              series={series}
              version={version}
              lines={lines}
              range={range}
              tick={stream.tick}
              format={format}
              selected={selected}
            />
          )}
          <Announcement view={charts} series={series} lines={lines} format={format} tick={stream.tick} />
        </div>
      </div>
      <div class="aside">
        {series.leaves > 1 && view !== 'heat' && (
          <ValuePicker series={series} picks={picks} onChange={(text) => setParams({ of: text })} />
        )}
        <WhyPanel
          name={state.name}
          stream={stream}
          series={series}
          timestamp={selectedPlace < 0 ? null : selected}
          format={format}
          lines={lines}
        />
      </div>
    </div>
  );
}

function TooltipRows(props: { lines: Line[]; place: number; series: Series; format(value: number): string }) {
  const { lines, place, series, format } = props;
  return (
    <>
      {lines.map((line) => {
        const [value, low, high] = [line.values[place], line.low[place], line.high[place]];
        return (
          <tr key={line.label}>
            <td>
              <Key colour={line.colour} /> {line.label}
            </td>
            <td>{value == null ? '–' : format(value)}</td>
            <td class="soft">
              {low == null || high == null ? 'error not stated' : `${format(low)} – ${format(high)}`}
            </td>
          </tr>
        );
      })}
      <tr>
        <td colSpan={3} class="soft">
          {series.freshnessAt(place)}, timestamp {series.timestamps[place]}
          {series.suspicious.has(series.timestamps[place]!) && ', suspicious'}
        </td>
      </tr>
    </>
  );
}

function Key(props: { colour: number }) {
  return (
    <svg class="key" viewBox="0 0 14 14" aria-hidden="true">
      <rect y="3" width="14" height="8" rx="2" style={{ fill: `var(--${seriesName(props.colour)})` }} />
    </svg>
  );
}

function Legend(props: { lines: Line[]; isStack: boolean }) {
  return (
    <div class="legend">
      {props.lines.map((line) => (
        <span class="entry" key={line.label}>
          <Key colour={line.colour} /> {line.label}
        </span>
      ))}
      <span class="entry soft">
        <svg class="key" viewBox="0 0 14 14" aria-hidden="true">
          <rect class="mark-fresh" x="5" y="1" width="4" height="12" />
        </svg>{' '}
        fresh
      </span>
      <span class="entry soft">
        <svg class="key" viewBox="0 0 14 14" aria-hidden="true">
          <rect x="5" y="9" width="4" height="4" style={{ fill: 'var(--soft)' }} />
        </svg>{' '}
        approximated
      </span>
      <span class="entry soft">
        <svg class="key" viewBox="0 0 14 14" aria-hidden="true">
          <rect x="5" y="1" width="4" height="8" style={{ fill: 'var(--bad)' }} />
        </svg>{' '}
        nullified
      </span>
      {!props.isStack && (
        <span class="soft">
          Bands hold the truth with about the chosen confidence. They end where the truth must; an estimate may lie
          outside.
        </span>
      )}
    </div>
  );
}

/** Tells screen readers what is under the crosshair. */
function Announcement(props: {
  view: ReturnType<typeof newView>;
  series: Series;
  lines: Line[];
  format(value: number): string;
  tick: number;
}) {
  const at = props.view.cursor.value;
  if (at === null) return <p class="hidden" role="status" />;
  const place = props.series.nearest(at);
  const values = props.lines.map(
    (line) => `${line.label} ${line.values[place] == null ? 'none' : props.format(line.values[place]!)}`,
  );
  return (
    <p class="hidden" role="status">
      {moment(props.series.seconds[place]!, props.tick)}: {values.join(', ')}; {props.series.freshnessAt(place)}
    </p>
  );
}
