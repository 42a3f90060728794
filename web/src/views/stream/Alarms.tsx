import { useEffect, useState } from 'preact/hooks';
import { acknowledge, getAlarms } from '../../api/routes';
import type { Alarm, Stream } from '../../api/types';
import { moment } from '../../data/format';
import { clockOf } from '../../data/series';
import { usePolled } from '../../state/poll';
import { addressOf } from '../../state/route';
import { mayOperate } from '../../state/session';
import type { StreamState } from '../../state/stream';
import { Failed } from '../../ui/parts';

const EVERY = 10_000;

/** The history of alarms, newest first. */
export function Alarms(props: { state: StreamState; stream: Stream; onRead(): void }) {
  const { state, stream } = props;
  const [failure, setFailure] = useState<unknown>(null);
  const { value, error, again } = usePolled((signal) => getAlarms(state.name, signal), EVERY, [
    state.message.value?.number,
  ]);
  const alarms = value.value;
  const isRead = alarms !== null || error.value !== null;
  useEffect(() => {
    if (isRead) props.onRead();
  }, [isRead]);
  const clock = clockOf(stream);
  const take = async (alarm: Alarm): Promise<void> => {
    try {
      await acknowledge(state.name, alarm.number);
      setFailure(null);
      again();
    } catch (problem) {
      setFailure(problem);
    }
  };
  return (
    <section class="card stack tight" aria-label="Alarms" style={{ minHeight: '7rem' }}>
      <h2>Alarms</h2>
      {error.value !== null && <Failed what="Alarms cannot be read" error={error.value} retry={again} />}
      {failure !== null && <Failed what="The alarm was not acknowledged" error={failure} />}
      {alarms?.length === 0 && (
        <p class="soft">
          {stream.spec.monitors?.length
            ? 'No monitor has found an event yet.'
            : 'There is no monitor yet: set one below.'}
        </p>
      )}
      {alarms && alarms.length > 0 && (
        <div class="scroll tall" tabIndex={0} role="region" aria-label="Alarms as a table">
          <table>
            <thead>
              <tr>
                <th scope="col">Monitor</th>
                <th scope="col">Began</th>
                <th scope="col">Ended</th>
                <th scope="col">Acknowledged</th>
              </tr>
            </thead>
            <tbody>
              {alarms.map((alarm) => (
                <tr key={alarm.number}>
                  <th scope="row">{alarm.monitor}</th>
                  <td>
                    <a href={addressOf(['streams', state.name], { at: String(alarm.timestamp) })}>
                      {moment(clock(alarm.timestamp), stream.tick)}
                    </a>
                  </td>
                  <td>
                    {alarm.ended === null ? (
                      <span class="chip bad">active</span>
                    ) : (
                      moment(clock(alarm.ended), stream.tick)
                    )}
                  </td>
                  <td>
                    {alarm.acknowledged ? (
                      <span class="soft">
                        by {alarm.acknowledged.by}, {moment(alarm.acknowledged.at)}
                      </span>
                    ) : mayOperate.value ? (
                      <button
                        type="button"
                        onClick={() => void take(alarm)}
                        aria-label={`Acknowledge ${alarm.monitor} of ${moment(clock(alarm.timestamp), stream.tick)}`}
                      >
                        Acknowledge
                      </button>
                    ) : (
                      <span class="chip warn">not yet</span>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
