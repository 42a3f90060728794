import { useState } from 'preact/hooks';
import type { Stream } from '../../api/types';
import type { StreamState } from '../../state/stream';
import { Note } from '../../ui/parts';
import { Alarms } from './Alarms';
import { MonitorBuilder } from './MonitorBuilder';
import { QueryBuilder } from './QueryBuilder';
import { Standing } from './Standing';

export function QueriesTab(props: { state: StreamState; stream: Stream }) {
  const { state, stream } = props;
  const { family } = stream.spec;
  const [isRead, setRead] = useState(false);
  if (family === 'sequence')
    return <Note>A stream of sequences answers no queries: each user’s symbols are released for themselves.</Note>;
  if (family === 'scalar')
    return <Note>A stream of numbers has no values to ask about: its releases are the numbers themselves.</Note>;
  return (
    <div class="stack">
      <Alarms state={state} stream={stream} onRead={() => setRead(true)} />
      {/* Once the list above has its height: nothing may move under a hand that drags. */}
      {isRead && (
        <>
          <MonitorBuilder state={state} stream={stream} />
          <div class="two">
            <QueryBuilder state={state} stream={stream} />
            <Standing state={state} stream={stream} />
          </div>
        </>
      )}
    </div>
  );
}
