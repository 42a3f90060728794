import { useState } from 'preact/hooks';
import type { Stream } from '../../api/types';
import { monitorText, queryText } from '../../data/monitor';
import { changeSpec } from '../../state/declaration';
import { mayOperate } from '../../state/session';
import type { StreamState } from '../../state/stream';
import { Dialog, Failed } from '../../ui/parts';

/** What is asked with every release, and watched. */
export function Standing(props: { state: StreamState; stream: Stream }) {
  const { state, stream } = props;
  const { queries = [], monitors = [] } = stream.spec;
  const [leaving, setLeaving] = useState<{ kind: 'queries' | 'monitors'; name: string } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const remove = async (): Promise<void> => {
    const { kind, name } = leaving!;
    setLeaving(null);
    try {
      await changeSpec(state, (spec) => ({
        ...spec,
        [kind]: ((spec[kind] as { name?: string }[]) ?? []).filter((one) => one.name !== name),
      }));
      setError(null);
    } catch (failure) {
      setError(failure);
    }
  };
  const list = (kind: 'queries' | 'monitors', items: { name: string; text: string }[]) => (
    <ul class="stack tight">
      {items.map(({ name, text }) => (
        <li key={name} class="row spread">
          <span>
            <strong>{name}</strong> <span class="soft">{text}</span>
          </span>
          {mayOperate.value && (
            <button
              type="button"
              class="plain"
              aria-label={`Remove ${name}`}
              onClick={() => setLeaving({ kind, name })}
            >
              Remove
            </button>
          )}
        </li>
      ))}
      {items.length === 0 && <li class="soft">none</li>}
    </ul>
  );
  return (
    <section class="card stack" aria-label="Standing queries and monitors">
      <h2>Standing queries</h2>
      {list(
        'queries',
        queries.map((query) => ({ name: query.name ?? 'query', text: queryText(query, stream.tick) })),
      )}
      <h2>Monitors</h2>
      {list(
        'monitors',
        monitors.map((monitor) => ({ name: monitor.name, text: monitorText(monitor, stream.tick) })),
      )}
      {error !== null && <Failed what="Nothing was changed" error={error} />}
      <Dialog open={leaving !== null} title={`Remove “${leaving?.name}”?`} onClose={() => setLeaving(null)}>
        <p>It is asked no more from the next release on. Answers that are published stay.</p>
        <div class="row">
          <button type="button" class="danger" onClick={() => void remove()}>
            Remove
          </button>
          <button type="button" onClick={() => setLeaving(null)}>
            Keep
          </button>
        </div>
      </Dialog>
    </section>
  );
}
