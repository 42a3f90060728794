// A monitor: its thresholds are dragged on the chart of its score.

import { useMemo, useState } from 'preact/hooks';
import type { MonitorSpec, Stream, Unit } from '../../api/types';
import { TimePlot, type Threshold } from '../../charts/TimePlot';
import type { TimeChartData } from '../../charts/time';
import { newView } from '../../charts/view';
import { amount, duration, figure, percent, whole } from '../../data/format';
import type { Line } from '../../data/lines';
import { eventsOf, proposed, scores, thresholdOf } from '../../data/monitor';
import { numberTicks } from '../../data/ranges';
import { unitOf, type Series } from '../../data/series';
import { changeSpec } from '../../state/declaration';
import { mayOperate } from '../../state/session';
import type { StreamState } from '../../state/stream';
import { CountField, Failed, Field, Note } from '../../ui/parts';
import { allOf, gapOf } from './model';
import { FIRST_SUBJECT, SubjectFields, subjectKeys, UnitField } from './Subject';

const SHOWN = 300;

export function MonitorBuilder(props: { state: StreamState; stream: Stream }) {
  const series = props.state.series.value;
  if (!series || series.length === 0) {
    return (
      <section class="card stack tight" aria-label="New monitor">
        <h2>New monitor</h2>
        <p class="soft">
          {series ? 'A monitor is set on the chart of past releases: wait for the first one.' : 'Loading…'}
        </p>
      </section>
    );
  }
  return <Builder {...props} series={series} version={props.state.version.value} />;
}

function Builder(props: { state: StreamState; stream: Stream; series: Series; version: number }) {
  const { state, stream, series, version } = props;
  const native = unitOf(series.shape) ?? 'frequencies';
  const [subject, setSubject] = useState(() => {
    const [largest = 0] = series.largest(1);
    return { ...FIRST_SUBJECT, first: largest, last: largest };
  });
  const [unit, setUnit] = useState<Unit>(native);
  const [delta, setDelta] = useState(1);
  const [kind, setKind] = useState<'level' | 'change'>('level');
  const [direction, setDirection] = useState<'above' | 'below'>('above');
  const [confidence, setConfidence] = useState('');
  const [name, setName] = useState('');
  const [start, setStart] = useState<string | null>(null);
  const [end, setEnd] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [saved, setSaved] = useState<string | null>(null);

  const about: MonitorSpec = {
    name: name.trim(),
    ...subjectKeys(stream, subject),
    unit,
    direction,
    start: 0,
    ...(delta > 1 ? { delta } : {}),
    ...(kind === 'change' ? { score: 'change' as const } : {}),
  };
  const key = JSON.stringify([about.value, about.first, about.last, unit, delta, kind]);
  const score = useMemo(() => scores(series, about, stream.spec), [series, version, key]);
  const usual = useMemo(() => proposed(score, direction), [key, direction, series]);
  const startText = start ?? String(usual.start);
  const given = thresholdOf(startText);
  const from = given ?? usual.start;
  const endText = end ?? String(Number((from + usual.end - usual.start).toPrecision(6)));
  const until = thresholdOf(endText) ?? from;
  const monitor: MonitorSpec = {
    ...about,
    start: from,
    ...(until === from ? {} : { end: until }),
    ...(confidence ? { confidence: Number(confidence) } : {}),
  };
  const events = useMemo(
    () => eventsOf(score, { direction, start: from, end: until }),
    [score, direction, from, until],
  );
  const isShare = unit === 'frequencies' && delta === 1;
  const format = (value: number): string => amount(value, isShare);
  const known = score.filter((one): one is number => one !== null);
  const highest = known.reduce((most, one) => Math.max(most, Math.abs(one)), Math.abs(from)) || 1;
  const [, second = highest / 10] = numberTicks(0, highest, 100);
  const step = second || highest / 100;

  const first = Math.max(series.length - SHOWN, 0);
  const all = allOf(series, stream.tick);
  const range = { from: (series.seconds[first] ?? all.from) - stream.tick / 2, to: all.to };
  const view = useMemo(() => newView(range), [series]);
  const data = useMemo<TimeChartData>(() => {
    const none = score.map(() => null);
    const line: Line = {
      pick: { first: 0, last: 0 },
      label: 'score',
      colour: 0,
      values: [...score],
      low: none,
      high: none,
    };
    return {
      seconds: series.seconds,
      freshness: series.freshness,
      suspicious: series.timestamps.map(() => false),
      lines: [line],
      isStack: false,
      include: [from, until],
      amount: format,
      tick: stream.tick,
      gap: gapOf(series, stream.tick),
      selected: null,
    };
  }, [score, from, until, isShare]);
  const thresholds: Threshold[] = [
    { key: 'end', label: `ends at ${format(until)}`, value: until, step, onChange: (value) => setEnd(String(value)) },
    {
      key: 'start',
      label: `starts ${direction} ${format(from)}`,
      value: from,
      step,
      onChange: (value) => setStart(String(value)),
    },
  ];
  const alarms = events.length === 1 ? 'one alarm' : `${whole(events.length)} alarms`;
  const raised = confidence ? `${alarms} or fewer, for whole intervals must pass` : alarms;
  const wrong =
    given === null || thresholdOf(endText) === null
      ? 'Start and end must be numbers.'
      : Number.isNaN(delta)
        ? 'The number of ticks is missing.'
        : direction === 'above' && until > from
          ? 'The end must not lie above the start.'
          : direction === 'below' && until < from
            ? 'The end must not lie below the start.'
            : null;

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await changeSpec(state, (spec) => ({ ...spec, monitors: [...(spec.monitors ?? []), monitor] }));
      setSaved(monitor.name);
      setError(null);
      setName('');
    } catch (failure) {
      setError(failure);
    }
  };
  const threshold = (text: string, set: (text: string) => void, label: string) => (
    <Field label={label}>
      <input
        inputMode="decimal"
        autocomplete="off"
        value={text}
        aria-invalid={thresholdOf(text) === null}
        onInput={(event) => set(event.currentTarget.value)}
      />
    </Field>
  );

  return (
    <section class="card stack" aria-label="New monitor">
      <h2>New monitor</h2>
      <p class="soft small">
        It raises an alarm when the score passes the red line, until it is back at the green one. Drag the lines, or
        move them with the arrow keys.
      </p>
      <TimePlot
        view={view}
        data={data}
        all={all}
        height={260}
        label="Score of the monitor"
        thresholds={thresholds}
        onRange={(next) => (view.range.value = next)}
        onPick={() => undefined}
        tooltip={(place) => (
          <tr>
            <td>score</td>
            <td>{score[place] == null ? '–' : format(score[place]!)}</td>
          </tr>
        )}
      />
      <p role="status">
        {wrong !== null ? (
          <span class="bad">{wrong}</span>
        ) : (
          `On the ${whole(known.length)} loaded releases it would have raised ${raised}.`
        )}
      </p>
      <form class="stack" onSubmit={(event) => void save(event)}>
        <div class="form">
          <SubjectFields
            stream={stream}
            subject={subject}
            withTop={false}
            onChange={(next) => (setSubject(next), setStart(null), setEnd(null))}
          />
          <UnitField unit={unit} onChange={(next) => (setUnit(next), setStart(null), setEnd(null))} />
          <Field label="Score">
            <select
              value={kind}
              onChange={(event) => (
                setKind(event.currentTarget.value as 'level' | 'change'),
                setStart(null),
                setEnd(null)
              )}
            >
              <option value="level">The number itself</option>
              <option value="change">Its change</option>
            </select>
          </Field>
          <CountField
            label="Summed over ticks"
            hint={duration(delta * stream.tick)}
            most={1000}
            value={delta}
            onChange={(next) => (setDelta(next), setStart(null), setEnd(null))}
          />
          <Field label="Alarm when">
            <select
              value={direction}
              onChange={(event) => (
                setDirection(event.currentTarget.value as 'above' | 'below'),
                setStart(null),
                setEnd(null)
              )}
            >
              <option value="above">above the start</option>
              <option value="below">below the start</option>
            </select>
          </Field>
          {threshold(startText, setStart, 'Start')}
          {threshold(endText, setEnd, 'End')}
          <Field label="Certainty">
            <select value={confidence} onChange={(event) => setConfidence(event.currentTarget.value)}>
              <option value="">the estimate</option>
              {[0.8, 0.9, 0.95, 0.99].map((one) => (
                <option key={one} value={one}>
                  whole {percent(one)} interval
                </option>
              ))}
            </select>
          </Field>
        </div>
        {error !== null && <Failed what="The monitor was not saved" error={error} />}
        {saved !== null && <Note kind="good">“{saved}” watches every release from now on.</Note>}
        {mayOperate.value ? (
          <div class="row">
            <Field label="Name of the monitor">
              <input required maxLength={100} value={name} onInput={(event) => setName(event.currentTarget.value)} />
            </Field>
            <button type="submit" class="primary" disabled={wrong !== null}>
              Save monitor
            </button>
          </div>
        ) : (
          <p class="soft small">
            An operator saves monitors. Start {figure(from)}, end {figure(until)}.
          </p>
        )}
      </form>
    </section>
  );
}
