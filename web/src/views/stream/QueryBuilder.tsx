import { useEffect, useState } from 'preact/hooks';
import { isAbort } from '../../api/client';
import { ask } from '../../api/routes';
import type { Answer, QuerySpec, Said, Stream, Unit } from '../../api/types';
import { amount, duration, moment, percent } from '../../data/format';
import { clockOf } from '../../data/series';
import { changeSpec } from '../../state/declaration';
import { mayOperate } from '../../state/session';
import type { StreamState } from '../../state/stream';
import { CountField, Failed, Field, Note } from '../../ui/parts';
import { FIRST_SUBJECT, SubjectFields, subjectKeys, UnitField } from './Subject';

/** A question with its answer while it is written; it costs no budget. */
export function QueryBuilder(props: { state: StreamState; stream: Stream }) {
  const { state, stream } = props;
  const [subject, setSubject] = useState(FIRST_SUBJECT);
  const [delta, setDelta] = useState(1);
  const [unit, setUnit] = useState<Unit>(stream.spec.family === 'central' ? 'counts' : 'frequencies');
  const [confidence, setConfidence] = useState(0.95);
  const [name, setName] = useState('');
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [saved, setSaved] = useState<string | null>(null);
  const query: QuerySpec = {
    ...subjectKeys(stream, subject),
    unit,
    confidence,
    ...(subject.kind === 'top' ? {} : { delta }),
  };
  const isWrong = Number.isNaN(subject.kind === 'top' ? subject.top : delta);
  const text = isWrong ? null : JSON.stringify(query);

  useEffect(() => {
    if (text === null) return (setAnswer(null), setError(null));
    const stop = new AbortController();
    const timer = setTimeout(() => {
      ask(state.name, JSON.parse(text) as QuerySpec, stop.signal).then(
        (found) => (setAnswer(found), setError(null)),
        (failure: unknown) => isAbort(failure) || (setError(failure), setAnswer(null)),
      );
    }, 200);
    return () => (clearTimeout(timer), stop.abort());
  }, [text, state.version.value]);

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await changeSpec(state, (spec) => ({
        ...spec,
        queries: [...(spec.queries ?? []), { name: name.trim(), ...query }],
      }));
      setSaved(name.trim());
      setName('');
    } catch (failure) {
      setError(failure);
    }
  };

  return (
    <section class="card stack" aria-label="Ask">
      <h2>Ask</h2>
      <div class="form">
        <SubjectFields stream={stream} subject={subject} withTop onChange={setSubject} />
        {subject.kind !== 'top' && (
          <CountField
            label="Summed over ticks"
            hint={delta > 1 ? duration(delta * stream.tick) : 'the last release only'}
            most={10_000}
            value={delta}
            onChange={setDelta}
          />
        )}
        <UnitField unit={unit} onChange={setUnit} />
        <Field label="Confidence">
          <select value={confidence} onChange={(event) => setConfidence(Number(event.currentTarget.value))}>
            {[0.8, 0.9, 0.95, 0.99].map((one) => (
              <option key={one} value={one}>
                {percent(one)}
              </option>
            ))}
          </select>
        </Field>
      </div>
      <div aria-live="polite" style={{ minHeight: '6rem' }}>
        {error !== null && <Failed what="No answer" error={error} />}
        {answer && <Shown answer={answer} stream={stream} unit={unit} confidence={confidence} />}
      </div>
      {saved !== null && <Note kind="good">“{saved}” is answered with every release from now on.</Note>}
      {mayOperate.value && (
        <form class="row" onSubmit={(event) => void save(event)}>
          <Field label="Name of the standing query">
            <input required value={name} maxLength={100} onInput={(event) => setName(event.currentTarget.value)} />
          </Field>
          <button type="submit" class="primary" disabled={isWrong}>
            Save as standing query
          </button>
        </form>
      )}
    </section>
  );
}

function Shown(props: { answer: Answer; stream: Stream; unit: Unit; confidence: number }) {
  const { answer, stream, unit } = props;
  const clock = clockOf(stream);
  const isShare = unit === 'frequencies';
  const line = (said: Partial<Said>): string =>
    said.low === undefined || said.high === undefined
      ? 'its error is not stated'
      : `${percent(props.confidence)} interval: ${amount(said.low, isShare)} to ${amount(said.high, isShare)}`;
  return (
    <div class="stack tight">
      {answer.top ? (
        <ol class="stack tight">
          {answer.top.map((one) => (
            <li key={one.of}>
              <strong>{one.of}</strong>: {amount(one.value, isShare)} <span class="soft">({line(one)})</span>
            </li>
          ))}
        </ol>
      ) : (
        <p>
          <strong style={{ fontSize: '1.6rem' }}>{amount(answer.value, isShare)}</strong>{' '}
          <span class="soft">{line(answer)}</span>
        </p>
      )}
      <p class="soft small">
        {answer.first !== undefined && answer.first !== answer.last
          ? `Sum over ${moment(clock(answer.first), stream.tick)} to ${moment(clock(answer.last!), stream.tick)}. `
          : `At ${moment(clock(answer.t), stream.tick)}. `}
        {answer.spans_more_than_one_window &&
          'The period is longer than a window: what it reveals adds up over windows.'}
      </p>
    </div>
  );
}
