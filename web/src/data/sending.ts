// How data get into a stream: a command that can be copied.

import type { NumberDomain, Stream } from '../api/types';
import { isNumbers, namesOf } from './domain';
import { quoted } from './toml';

const word = (text: string): string => (/^[A-Za-z0-9_./:-]+$/.test(text) ? text : quoted(text));

export interface Sending {
  what: string;
  command: string;
}

export function sendingOf(stream: Stream, server: string): Sending {
  const { name, spec } = stream;
  const to = `--server ${word(server)} --token-file ingest.token`;
  if (spec.family === 'local' || spec.family === 'sequence') {
    const value = `--value ${word(namesOf(spec)[0] ?? '0')}`;
    const credential = stream.credentials ? ' --credential-file device.credential' : '';
    return {
      what: 'A device answers the questions of the stream; this one is run by hand',
      command:
        `tidegate device run --stream ${name} ${to} \\\n` +
        `  --operator-key operator.pub --state device --source ${name} ${value}${credential}`,
    };
  }
  if (stream.backfill && stream.open === null) {
    const columns = spec.family === 'scalar' ? 't,value' : 't,user,value';
    return {
      what: `The stream takes its history first, a table ${columns}`,
      command: `tidegate stream send ${name} --history history.csv ${to}`,
    };
  }
  if (spec.family === 'scalar') {
    const low = isNumbers(spec.domain) ? (spec.domain as NumberDomain).low : 0;
    const timestamp = stream.open ?? stream.timestamp ?? 0;
    return {
      what: 'A reading is sent with its timestamp, while the tick is open',
      command: `tidegate stream send ${name} --timestamp ${timestamp} --value=${low} ${to}`,
    };
  }
  const line = JSON.stringify({ user: 'anna', value: namesOf(spec)[0] ?? '0' });
  return {
    what: `Each line of the file is an event, such as ${line}; the release of a tick follows when it is over`,
    command: `tidegate stream send ${name} --input events.ndjson ${to}`,
  };
}
