// How the service does: rates, refusals, lag, store. Nothing counts events of curated streams.

import { useEffect, useRef } from 'preact/hooks';
import { getOperations } from '../api/routes';
import type { Operations } from '../api/types';
import { Sparkline } from '../charts/small';
import { ago, bytes, figure, moment, whole } from '../data/format';
import { ratesOf, sampleOf, sum, type Sample } from '../data/rates';
import { usePolled } from '../state/poll';
import { addressOf } from '../state/route';
import { Failed } from '../ui/parts';

const EVERY = 3_000;
const SAMPLES = 100;

const REASONS: Record<string, string> = {
  closed: 'too late: their phase was closed',
  conflicting: 'a second report of the same device',
  implausible: 'implausible: too many ones',
  malformed: 'malformed',
  other_stream: 'for another stream',
  no_stream: 'for no stream',
  crowded: 'more than the population would send',
  busy: 'the store was busy',
  store: 'the store failed',
  unauthorised: 'without a valid token',
  rate: 'beyond a rate limit',
};

export function OperationsView() {
  const { value, error, again } = usePolled(getOperations, EVERY);
  const samples = useRef<Sample[]>([]);
  const operations = value.value;
  useEffect(() => {
    if (!operations) return;
    const next = sampleOf(operations);
    if (samples.current.at(-1)?.at !== next.at) samples.current = [...samples.current, next].slice(-SAMPLES);
  }, [operations]);
  return (
    <>
      <h1>Operations</h1>
      {error.value !== null && (
        <Failed what="The state of the service cannot be read" error={error.value} retry={again} />
      )}
      {operations ? (
        <Shown operations={operations} samples={[...samples.current, sampleOf(operations)]} />
      ) : (
        error.value === null && (
          <p class="soft" role="status">
            Loading…
          </p>
        )
      )}
    </>
  );
}

function Shown(props: { operations: Operations; samples: Sample[] }) {
  const { operations } = props;
  const { streams, reports } = operations;
  const accepted = ratesOf(props.samples, 'accepted');
  const releases = ratesOf(props.samples, 'releases');
  const poisoned = sum(operations.suspicious);
  const fault = (count: number): string => (count > 0 ? 'bad' : '');
  return (
    <>
      <dl class="numbers">
        <Number
          label="Streams running"
          value={whole(streams.running)}
          more={`${whole(streams.paused)} paused, ${whole(streams.retired)} retired`}
        />
        <Number
          label="With a problem"
          value={whole(streams.problems)}
          kind={fault(streams.problems)}
          more={`${whole(streams.undriven)} driven by nobody here`}
        />
        <Number
          label="Reports a second"
          value={accepted.length ? figure(accepted.at(-1)!, 3) : '…'}
          more={`${whole(reports.accepted)} since the start`}
          rates={accepted}
        />
        <Number
          label="Releases a second"
          value={releases.length ? figure(releases.at(-1)!, 2) : '…'}
          more={`${whole(operations.releases)} since the start`}
          rates={releases}
        />
        <Number
          label="Skipped ticks"
          value={whole(operations.skipped_ticks)}
          kind={fault(operations.skipped_ticks)}
          more={`${whole(operations.driver_errors)} drivers opened again`}
        />
        <Number
          label="Largest lag"
          value={operations.slowest ? `${figure(operations.slowest.lag_seconds, 2)} s` : '–'}
          more={operations.slowest?.stream ?? 'of streams of devices'}
        />
        <Number label="Batches waiting" value={whole(reports.queued_batches)} more="for the store" />
        <Number
          label="Store"
          value={operations.store_bytes === null ? '–' : bytes(operations.store_bytes)}
          more="on disk"
        />
        <Number
          label="Signs of poisoning"
          value={whole(poisoned)}
          kind={fault(poisoned)}
          more={
            Object.entries(operations.suspicious)
              .map(([kind, count]) => `${kind} ${whole(count)}`)
              .join(', ') || 'none'
          }
        />
      </dl>
      <div class="two">
        <section class="card stack tight" aria-label="Rejected reports">
          <h2>Rejected reports</h2>
          <Counts counts={reports.refused} names={REASONS} none="None since the start." />
          {reports.repeated > 0 && (
            <p class="soft small">{whole(reports.repeated)} reports came again and were not counted again.</p>
          )}
          <p class="soft small">Events of curated streams are not counted: their number would reveal who is present.</p>
        </section>
        <section class="card stack tight" aria-label="Service">
          <h2>Service</h2>
          <dl class="facts">
            <dt>Version</dt>
            <dd>{operations.version}</dd>
            <dt>Started</dt>
            <dd>
              {moment(operations.started)} ({ago(operations.started, operations.now)})
            </dd>
          </dl>
          <h3>Messages to webhooks</h3>
          <Counts counts={operations.webhooks} names={{}} none="None since the start." />
        </section>
      </div>
      <ByStream operations={operations} />
    </>
  );
}

function Number(props: { label: string; value: string; more: string; kind?: string; rates?: number[] }) {
  return (
    <div>
      <dt>{props.label}</dt>
      <dd class={props.kind ?? ''}>{props.value}</dd>
      <dd>{props.more}</dd>
      {props.rates && (
        <dd>
          <Sparkline
            values={props.rates}
            deviations={props.rates.map(() => null)}
            label={`${props.label}, the last minutes`}
          />
        </dd>
      )}
    </div>
  );
}

function Counts(props: { counts: Record<string, number>; names: Record<string, string>; none: string }) {
  const shown = Object.entries(props.counts)
    .filter(([, count]) => count > 0)
    .sort((one, other) => other[1] - one[1]);
  if (!shown.length) return <p class="soft">{props.none}</p>;
  return (
    <table>
      <tbody>
        {shown.map(([reason, count]) => (
          <tr key={reason}>
            <th scope="row">{reason}</th>
            <td class="soft">{props.names[reason] ?? ''}</td>
            <td class="number">{whole(count)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const MOST_ROWS = 100;

function ByStream(props: { operations: Operations }) {
  const rows = props.operations.by_stream.slice(0, MOST_ROWS);
  if (!rows.length) return null;
  return (
    <section class="card stack tight" aria-label="By stream">
      <h2>By stream</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Operations by stream">
        <table>
          <thead>
            <tr>
              <th scope="col">Stream</th>
              <th scope="col" class="number">
                Reports
              </th>
              <th scope="col" class="number">
                Rejected
              </th>
              <th scope="col" class="number">
                Suspicious
              </th>
              <th scope="col" class="number">
                Skipped ticks
              </th>
              <th scope="col" class="number">
                Lag
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.stream}>
                <th scope="row">
                  <a href={addressOf(['streams', row.stream])}>{row.stream}</a>
                </th>
                <td class="number">{whole(row.accepted)}</td>
                <td
                  class="number"
                  title={Object.entries(row.refused)
                    .map(([reason, count]) => `${reason}: ${count}`)
                    .join(', ')}
                >
                  {whole(sum(row.refused))}
                </td>
                <td class={`number ${row.suspicious > 0 ? 'warn' : ''}`}>{whole(row.suspicious)}</td>
                <td class={`number ${row.skipped > 0 ? 'warn' : ''}`}>{whole(row.skipped)}</td>
                <td class="number">{row.lag_seconds === null ? '–' : `${figure(row.lag_seconds, 2)} s`}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {props.operations.by_stream.length > MOST_ROWS && (
        <p class="soft small">The first {MOST_ROWS}, those with problems first.</p>
      )}
    </section>
  );
}
