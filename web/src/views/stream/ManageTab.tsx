// What an operator may do with a stream: pause, resume, retire, and its declaration.

import { useEffect, useState } from 'preact/hooks';
import { getDeclaration, setStatus } from '../../api/routes';
import type { Declaration, Stream } from '../../api/types';
import { duration } from '../../data/format';
import { curlOf, declarationToml } from '../../data/toml';
import type { StreamState } from '../../state/stream';
import { Copyable, Dialog, Failed, Field } from '../../ui/parts';

type Action = 'pause' | 'resume' | 'retire';

function lost(stream: Stream, action: Action): string[] {
  const isCurated = stream.spec.family === 'central' || stream.spec.family === 'scalar';
  switch (action) {
    case 'pause': {
      const told = [
        'The open tick is finished and released; no other is opened until you resume the stream.',
        'What happens meanwhile is never released.',
      ];
      if (stream.backfill && stream.open === null)
        told.push('History that is not sent yet can never be sent: resuming makes the stream live.');
      return told;
    }
    case 'resume': {
      const told = ['The next whole tick is opened.'];
      if (stream.backfill && stream.open === null)
        told.push('The stream becomes live for ever, and takes no more history.');
      return told;
    }
    case 'retire':
      return [
        'The stream ends for ever: no tick is opened again, and nobody can resume it.',
        isCurated ? 'Events that arrive from now on are rejected.' : 'Its devices are asked nothing more.',
        'Its name cannot be used for another guarantee. Its releases stay and can be read.',
        `${stream.spec.monitors?.length ?? 0} monitors and ${stream.spec.queries?.length ?? 0} standing queries stop.`,
      ];
  }
}

const TITLES: Record<Action, string> = { pause: 'Pause', resume: 'Resume', retire: 'Retire' };

export function ManageTab(props: { state: StreamState; stream: Stream }) {
  const { state, stream } = props;
  const [asked, setAsked] = useState<Action | null>(null);
  const [typed, setTyped] = useState('');
  const [error, setError] = useState<unknown>(null);
  const [declaration, setDeclaration] = useState<Declaration | null>(null);
  useEffect(() => {
    getDeclaration(state.name).then((found) => setDeclaration(found.declaration), setError);
  }, [state.name, stream.spec]);
  const act = async (): Promise<void> => {
    const action = asked!;
    setAsked(null);
    setTyped('');
    try {
      await setStatus(state.name, action);
      setError(null);
    } catch (failure) {
      setError(failure);
    }
    await state.reload();
  };
  const isBackfilling = stream.backfill === true && stream.status === 'running' && stream.open === null;
  return (
    <div class="two">
      <section class="card stack" aria-label="State">
        <h2>State</h2>
        <p>
          The stream is <strong>{stream.status}</strong>.{' '}
          {stream.retention?.age
            ? `Releases are kept for ${stream.retention.age}.`
            : stream.retention?.timestamps
              ? `The last ${stream.retention.timestamps} releases are kept.`
              : 'All releases are kept.'}
          {stream.lateness ? ` Ticks take events ${duration(stream.lateness * stream.tick)} longer.` : ''}
        </p>
        {error !== null && <Failed what="Nothing was changed" error={error} />}
        {stream.status === 'retired' ? (
          <p class="soft">A retired stream stays retired. Its releases can be read.</p>
        ) : (
          <div class="row">
            {stream.status === 'running' && (
              <button type="button" onClick={() => setAsked('pause')}>
                Pause…
              </button>
            )}
            {(stream.status === 'paused' || isBackfilling) && (
              <button type="button" class="primary" onClick={() => setAsked('resume')}>
                Resume…
              </button>
            )}
            <button type="button" class="danger" onClick={() => setAsked('retire')}>
              Retire…
            </button>
          </div>
        )}
      </section>
      <section class="card stack" aria-label="Declaration">
        <h2>Declaration</h2>
        {declaration && (
          <>
            <Copyable label="Declaration, for service.toml" text={declarationToml(declaration)} />
            <Copyable label="The same for curl" text={curlOf(declaration, location.origin, false)} />
          </>
        )}
      </section>
      <Dialog
        open={asked !== null}
        title={asked ? `${TITLES[asked]} ${stream.name}?` : ''}
        onClose={() => (setAsked(null), setTyped(''))}
      >
        {asked && (
          <>
            <ul class="stack tight">
              {lost(stream, asked).map((line) => (
                <li key={line}>• {line}</li>
              ))}
            </ul>
            {asked === 'retire' && (
              <Field label={`To confirm, write the name of the stream: ${stream.name}`}>
                <input
                  value={typed}
                  autocomplete="off"
                  spellcheck={false}
                  onInput={(event) => setTyped(event.currentTarget.value)}
                />
              </Field>
            )}
            <div class="row">
              <button
                type="button"
                class={asked === 'retire' ? 'danger' : 'primary'}
                disabled={asked === 'retire' && typed !== stream.name}
                onClick={() => void act()}
              >
                {TITLES[asked]}
              </button>
              <button type="button" onClick={() => (setAsked(null), setTyped(''))}>
                Cancel
              </button>
            </div>
          </>
        )}
      </Dialog>
    </div>
  );
}
