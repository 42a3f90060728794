import { useEffect, useState } from 'preact/hooks';
import { isAbort } from '../../api/client';
import { getReleases } from '../../api/routes';
import type { ReleaseRecord, Stream } from '../../api/types';
import { figure, moment, percent, whole } from '../../data/format';
import type { Line } from '../../data/lines';
import type { Series } from '../../data/series';
import { decision, PURPOSES, spentText, withoutWhy } from '../../data/why';
import { setParams } from '../../state/route';
import { Failed } from '../../ui/parts';

const MARKS = { fresh: 'good', approximated: '', nullified: 'bad' } as const;

export interface WhyProps {
  name: string;
  stream: Stream;
  series: Series;
  timestamp: number | null;
  lines: Line[];
  format(value: number): string;
}

/** Why a release is what it is: what was asked of whom, what was spent, and what decided. */
export function WhyPanel(props: WhyProps) {
  const { name, timestamp } = props;
  const [record, setRecord] = useState<ReleaseRecord | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    setError(null);
    if (timestamp === null) return setRecord(null);
    const stop = new AbortController();
    getReleases(name, { from: timestamp, to: timestamp, limit: 1 }, stop.signal).then(
      ({ releases }) => setRecord(releases[0] ?? null),
      (failure: unknown) => isAbort(failure) || setError(failure),
    );
    return () => stop.abort();
  }, [name, timestamp]);
  return (
    <section class="card stack tight" aria-label="Why this release" aria-live="polite" style={{ minHeight: '14rem' }}>
      <div class="row spread">
        <h2>Why this release</h2>
        {timestamp !== null && (
          <button
            type="button"
            class="plain"
            aria-label="Close the explanation"
            onClick={() => setParams({ at: null })}
          >
            ✕
          </button>
        )}
      </div>
      {timestamp === null && (
        <p class="soft">
          Choose a point of the chart, or a row of the table: what was asked, spent and decided there stands here.
        </p>
      )}
      {error !== null && <Failed what="The release cannot be read" error={error} />}
      {timestamp !== null && record?.timestamp === timestamp && <Explanation {...props} record={record} />}
    </section>
  );
}

function Explanation(props: WhyProps & { record: ReleaseRecord }) {
  const { record, series, stream, format } = props;
  const { release } = record;
  const { why } = release;
  const place = series.placeOf(record.timestamp);
  const classes = (stream.spec.classes ?? []).map((one) => one.name);
  return (
    <>
      <p class="row">
        <strong>{moment(series.seconds[place] ?? NaN, stream.tick)}</strong>
        <span class={`chip ${MARKS[release.freshness]}`}>{release.freshness}</span>
        {release.suspicious?.map((kind) => (
          <span key={kind} class="chip warn">
            suspicious: {kind}
          </span>
        ))}
      </p>
      <p>{why ? decision(why) : withoutWhy(record)}</p>
      <dl class="facts">
        <dt>Timestamp</dt>
        <dd>{record.timestamp}</dd>
        <dt>Spent</dt>
        <dd>{spentText(release.spent, classes)}</dd>
        {stream.spec.family === 'local' && release.reports !== undefined && (
          <>
            <dt>Reports</dt>
            <dd>{whole(release.reports)}</dd>
          </>
        )}
        {why?.dissimilarity !== undefined && (
          <>
            <dt>Change</dt>
            <dd>
              {figure(why.dissimilarity, 3)} {measureOf(why.measure)}
            </dd>
          </>
        )}
        {why?.error !== undefined && (
          <>
            <dt>Error of a publication</dt>
            <dd>
              {figure(why.error, 3)} {measureOf(why.measure)}
            </dd>
          </>
        )}
      </dl>
      {why?.asked && why.asked.length > 0 && (
        <>
          <h3>{stream.spec.family === 'local' ? 'Asked' : 'Paid for'}</h3>
          <ul class="stack tight small">
            {why.asked.map((one, index) => (
              <li key={index}>
                ε {figure(Number(one.epsilon))} {PURPOSES[one.purpose] ?? `for ${one.purpose}`}
                {one.class !== undefined && `, class ${classes[one.class] ?? one.class}`}
                {one.share < 1 && `, of ${percent(one.share, 1)} of the population`}
                {one.oracle && `, oracle ${one.oracle}`}
                {one.questions > 1 && `, ${one.questions} questions`}
                {one.reports !== undefined && `: ${whole(one.reports)} reports`}
              </li>
            ))}
          </ul>
        </>
      )}
      <h3>Values</h3>
      <table class="small">
        <tbody>
          {props.lines.map((line) => (
            <tr key={line.label}>
              <th scope="row">{line.label}</th>
              <td class="number">{line.values[place] == null ? '–' : format(line.values[place]!)}</td>
              <td class="number soft">
                {line.low[place] == null ? 'not stated' : [line.low[place]!, line.high[place]!].map(format).join(' – ')}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

const measureOf = (measure: string | undefined): string =>
  measure === 'mean_square'
    ? '(mean square of shares)'
    : measure === 'mean_distance'
      ? '(mean distance of counts)'
      : '';
