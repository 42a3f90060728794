// The promise in plain words, and the budget that keeps it.

import type { PromiseInfo, Stream } from '../../api/types';
import { getPromise } from '../../api/routes';
import { BudgetChart, Gauge, type Step } from '../../charts/small';
import { duration, figure, moment, percent } from '../../data/format';
import { promiseOf } from '../../data/promise';
import { clockOf } from '../../data/series';
import { usePolled } from '../../state/poll';
import type { StreamState } from '../../state/stream';
import { Failed, Note } from '../../ui/parts';

const HISTORY = 200;
const EVERY = 10_000;

const RELATIONS: Record<PromiseInfo['relation'], string> = {
  window_of_one_user: 'two streams that differ in whatever one user reports within a window',
  add_or_remove_one_user: 'two streams, of which one has a user’s contributions of a window and the other has not',
  replace_one_users_value: 'two streams in which one user has other values within a window',
  one_reading: 'two streams that differ in one reading',
  one_contribution: 'two streams that differ in one contribution to a reading',
  one_symbol: 'one symbol, as an observer with the declared model learns about it',
};

export function PromiseTab(props: { state: StreamState; stream: Stream }) {
  const { state, stream } = props;
  const { value, error, again } = usePolled((signal) => getPromise(state.name, HISTORY, signal), EVERY, [
    state.version.value,
  ]);
  const info = value.value;
  const words = promiseOf(stream);
  return (
    <div class="two">
      <section class="card stack" aria-label="The promise">
        <h2>The promise</h2>
        {words.sentences.map((sentence) => (
          <p key={sentence} style={{ fontSize: '1.15rem', lineHeight: '1.5' }}>
            {sentence}
          </p>
        ))}
        {words.meaning && <p>{words.meaning}</p>}
        <p>{words.neighbours}</p>
        <p>{words.trust}</p>
        {words.counted && <p>{words.counted}</p>}
        {info && (
          <dl class="facts">
            <dt>Neighbours</dt>
            <dd>
              {RELATIONS[info.relation]}
              {info.contribution !== undefined && `, of at most ${figure(info.contribution)}`}
            </dd>
            <dt>Protected unit</dt>
            <dd>{info.unit}</dd>
            <dt>Who sees values</dt>
            <dd>{info.trust === 'device' ? 'nobody but the device' : 'the service, as trusted curator'}</dd>
            {info.guarantees.map((one) => (
              <Guarantee
                key={one.class ?? ''}
                name={one.class}
                epsilon={one.epsilon}
                window={one.window}
                seconds={one.seconds}
              />
            ))}
          </dl>
        )}
      </section>
      <section class="card stack" aria-label="The budget" style={{ minHeight: '24rem' }}>
        <h2>The budget of the window</h2>
        {error.value !== null && <Failed what="The budget cannot be read" error={error.value} retry={again} />}
        {info &&
          (info.budget.length ? (
            info.budget.map((budget) => <Budget key={budget.class ?? ''} stream={stream} info={info} budget={budget} />)
          ) : (
            <Note>
              {info.division === 'device'
                ? 'Each device keeps to a budget of its own, which the service cannot see.'
                : 'Each timestamp has a budget of its own: nothing is shared, so nothing can run out.'}
            </Note>
          ))}
      </section>
    </div>
  );
}

function Guarantee(props: { name: string | null; epsilon: string; window: number | null; seconds: number | null }) {
  return (
    <>
      <dt>{props.name === null ? 'Guarantee' : `Class ${props.name}`}</dt>
      <dd>
        ε {figure(Number(props.epsilon))}
        {props.window === null ? ', for all time' : ` in any ${props.window} ticks`}
        {props.seconds !== null && ` (${duration(props.seconds, true)})`}
      </dd>
    </>
  );
}

function Budget(props: { stream: Stream; info: PromiseInfo; budget: PromiseInfo['budget'][number] }) {
  const { stream, info, budget } = props;
  const clock = clockOf(stream);
  const steps = (list: { timestamp: number; left: number }[]): Step[] =>
    list.map(({ timestamp, left }) => ({ seconds: clock(timestamp), left }));
  const next = budget.next[0]?.left ?? budget.history.at(-1)?.left ?? 1;
  const full = budget.next.find(({ left }) => left > 0.999);
  const what = info.division === 'population' ? 'of the users not asked yet' : 'left for the next tick';
  return (
    <div class="stack tight">
      {budget.class !== null && <h3>Class {budget.class}</h3>}
      <Gauge left={next} label={what} />
      <BudgetChart
        history={steps(budget.history)}
        next={steps(budget.next)}
        time={(seconds) => moment(seconds, stream.tick)}
        label={`Left after each release, and for the next ${budget.next.length} ticks if nothing more is spent`}
      />
      <p class="soft small">
        {full
          ? `If nothing more is spent, all of it is free again at ${moment(clock(full.timestamp), stream.tick)}. `
          : 'Solid: after each release. Dashed: for the next ticks, if nothing more is spent. '}
        {!budget.complete && 'The first entries may be too high: older releases of their window are deleted.'}
      </p>
      <details>
        <summary class="small">As a table</summary>
        <div class="scroll" tabIndex={0} role="region" aria-label="Budget as a table">
          <table class="small">
            <thead>
              <tr>
                <th scope="col">Time</th>
                <th scope="col" class="number">
                  Spent
                </th>
                <th scope="col" class="number">
                  Left
                </th>
              </tr>
            </thead>
            <tbody>
              {budget.history
                .slice(-50)
                .reverse()
                .map((step) => (
                  <tr key={step.timestamp}>
                    <th scope="row">{moment(clock(step.timestamp), stream.tick)}</th>
                    <td class="number">{percent(step.spent, 2)}</td>
                    <td class="number">{percent(step.left, 2)}</td>
                  </tr>
                ))}
            </tbody>
          </table>
        </div>
      </details>
    </div>
  );
}
