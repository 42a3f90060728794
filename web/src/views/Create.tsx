// A new stream: the questions of `tidegate new`, the predicted error, the declaration, and only then the stream.

import { useMemo, useState } from 'preact/hooks';
import { ApiError } from '../api/client';
import { advise, create, getOverview } from '../api/routes';
import type { Advice, Declaration } from '../api/types';
import { draftOf, EMPTY, EXISTS, familyOf, faultsOf, type Faults, type Form } from '../data/form';
import { promiseOf } from '../data/promise';
import { curlOf, declarationToml } from '../data/toml';
import { usePolled } from '../state/poll';
import { addressOf, go } from '../state/route';
import { tokenInfo } from '../state/token';
import { Copyable, Failed, Note } from '../ui/parts';
import { AdviceShown } from './create/AdviceShown';
import { Questions } from './create/Questions';

/** Mechanisms for those who choose themselves, by family. */
export const MECHANISMS: Record<string, string[]> = {
  local: ['track', 'lpu', 'lpd', 'lpa', 'lsp', 'lbu', 'lbd', 'lba', 'mtsp', 'mtsp_population'],
  central: ['track', 'uniform', 'sample', 'bd', 'ba'],
  scalar: ['track', 'laplace', 'clamped', 'pegasus', 'contin', 'discontin', 'bucorder', 'comporder'],
  sequence: ['rr', 'oue'],
};

const EVERY = 10_000;

export function CreateView() {
  const [form, setForm] = useState<Form>(EMPTY);
  const [isTouched, setTouched] = useState(false);
  const [mechanism, setMechanism] = useState<string | null>(null);
  const [advice, setAdvice] = useState<{ key: string; advice: Advice } | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<{ what: string; error: unknown } | null>(null);
  const [refused, setRefused] = useState<string | null>(null);
  const overview = usePolled(getOverview, EVERY).value.value;
  const taken = useMemo(() => {
    const names = overview?.streams.map((row) => row.name) ?? [];
    return new Set(refused === null ? names : [...names, refused]);
  }, [overview, refused]);
  const faults = faultsOf(form, taken);
  const shown: Faults = isTouched ? faults : faults.name === EXISTS ? { name: EXISTS } : {};
  const isRight = Object.keys(faults).length === 0;
  const key = JSON.stringify({ ...form, name: '' });
  const known = advice?.key === key ? advice.advice : null;
  const advises = tokenInfo.value?.advises === true;

  const declaration = useMemo<Declaration | null>(() => {
    if (!isRight) return null;
    if (mechanism !== null) return draftOf(form, mechanism) as Declaration;
    if (!known?.declaration) return null;
    return { ...known.declaration, name: form.name };
  }, [form, known, mechanism, isRight]);

  const promise = declaration && promiseOf(declaration);

  const change = (next: Partial<Form>): void => {
    const changed = { ...form, ...next };
    if (familyOf(changed) !== familyOf(form)) setMechanism(null);
    setForm(changed);
    setError(null);
  };
  const predict = async (event: Event): Promise<void> => {
    event.preventDefault();
    setTouched(true);
    setError(null);
    if (!isRight) {
      requestAnimationFrame(() => document.querySelector<HTMLElement>('[aria-invalid=true]')?.focus());
      return;
    }
    if (!advises) return;
    setBusy(true);
    try {
      const population = form.row === 'user' && form.trust === 'curator' ? { population: Number(form.population) } : {};
      setAdvice({ key, advice: await advise({ declaration: draftOf(form, null), ...population }) });
    } catch (failure) {
      setError({ what: 'There is no prediction', error: failure });
    }
    setBusy(false);
  };
  const make = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      await create(declaration!);
      go(addressOf(['streams', form.name]));
    } catch (failure) {
      if (failure instanceof ApiError && failure.status === 412) setRefused(form.name);
      else setError({ what: 'The stream was not created', error: failure });
      setBusy(false);
    }
  };

  return (
    <>
      <h1>New stream</h1>
      <div class="two">
        <form class="card stack" onSubmit={(event) => void predict(event)} noValidate>
          <Questions form={form} faults={shown} onChange={change} />
          {(!advises || mechanism !== null) && (
            <label class="field">
              <span>Mechanism</span>
              <select value={mechanism ?? ''} onChange={(event) => setMechanism(event.currentTarget.value || null)}>
                <option value="">{advises ? 'the recommended one' : 'choose one'}</option>
                {MECHANISMS[familyOf(form)]!.map((one) => (
                  <option key={one} value={one}>
                    {one}
                  </option>
                ))}
              </select>
            </label>
          )}
          <div class="row">
            {advises && (
              <button type="submit" class={known ? '' : 'primary'} disabled={isBusy}>
                {isBusy ? 'Computing…' : known ? 'Predict again' : 'Predict the error'}
              </button>
            )}
            {!advises && <button type="submit">Check</button>}
            {isTouched && !isRight && (
              <span class="bad small" role="alert">
                Please complete the marked answers.
              </span>
            )}
          </div>
        </form>
        <div class="stack" aria-live="polite">
          {error && <Failed {...error} />}
          {isBusy && !known && (
            <Note>Mechanisms are compared on simulated streams. This takes up to twenty seconds.</Note>
          )}
          {advice && !known && !isBusy && <Note kind="warn">The answers have changed since the prediction.</Note>}
          {known && <AdviceShown advice={known} form={form} mechanism={mechanism} onChoose={setMechanism} />}
          {!known && !isBusy && !declaration && (
            <div class="card stack tight">
              <h2>What happens next</h2>
              <p class="soft">
                {advises
                  ? 'The predicted error of each mechanism stands here before anything is created or stored.'
                  : 'This service has no laboratory, so it predicts no errors: choose a mechanism yourself.'}
              </p>
            </div>
          )}
          {declaration && (
            <section class="card stack" aria-label="Declaration">
              <h2>
                {declaration.name}: {declaration.spec.family}.{declaration.spec.mechanism}
              </h2>
              {promise!.sentences.map((sentence) => (
                <p key={sentence}>{sentence}</p>
              ))}
              {promise!.counted && <p>{promise!.counted}</p>}
              <p class="soft small">The guarantee of a stream never changes: another guarantee is another stream.</p>
              <div>
                <button type="button" class="primary" disabled={isBusy} onClick={() => void make()}>
                  Create the stream
                </button>
              </div>
              <Copyable label="Declaration, for service.toml" text={declarationToml(declaration)} />
              <Copyable label="The same for curl" text={curlOf(declaration, location.origin, true)} />
            </section>
          )}
        </div>
      </div>
    </>
  );
}
