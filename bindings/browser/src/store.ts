// The device's state in IndexedDB. A save counts once it is on the disk (`durability: "strict"`) and was read back.

import { DeviceError } from './types.js';

const DATABASE = 'tidegate';
const DEVICES = 'devices';

/** What is stored of a source. */
export interface Row {
  version: string;
  contents: Uint8Array;
  /** The clocks that the owner has consented to, as the device takes them. */
  terms: string;
}

let opened: Promise<IDBDatabase> | undefined;

function database(): Promise<IDBDatabase> {
  opened ??= new Promise<IDBDatabase>((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => void request.result.createObjectStore(DEVICES);
    request.onblocked = () => reject(new DeviceError('store', 'another tab keeps the database from being opened'));
    request.onerror = () => reject(request.error ?? new DeviceError('store', 'the database cannot be opened'));
    request.onsuccess = () => {
      const made = request.result;
      // A deleted database is opened anew; whoever wants to delete it does not have to wait.
      made.onclose = () => (opened = undefined);
      made.onversionchange = () => {
        made.close();
        opened = undefined;
      };
      resolve(made);
    };
  });
  opened.catch(() => (opened = undefined));
  return opened;
}

async function transaction<T>(
  mode: IDBTransactionMode,
  work: (devices: IDBObjectStore, keep: (result: T) => void, abort: (reason: Error) => void) => void,
): Promise<T | undefined> {
  const start = async () => (await database()).transaction(DEVICES, mode, { durability: 'strict' });
  const begun = await start().catch(() => {
    // Its database was deleted meanwhile.
    opened = undefined;
    return start();
  });
  return new Promise((resolve, reject) => {
    let result: T | undefined;
    let why: Error | undefined;
    begun.oncomplete = () => resolve(result);
    begun.onabort = () => reject(why ?? begun.error ?? new DeviceError('store', 'the save was ended'));
    work(
      begun.objectStore(DEVICES),
      (kept) => (result = kept),
      (reason) => {
        why = reason;
        begun.abort();
      },
    );
  });
}

export function read(source: string): Promise<Row | undefined> {
  return transaction<Row>('readonly', (devices, keep) => {
    const request: IDBRequest<Row | undefined> = devices.get(source);
    request.onsuccess = () => request.result && keep(request.result);
  });
}

/** Replaces a state if it is still the expected one, and returns the bytes that are stored afterwards. */
export async function replace(source: string, row: Row, replaces: string | undefined): Promise<Uint8Array> {
  await transaction('readwrite', (devices, _, abort) => {
    const request: IDBRequest<Row | undefined> = devices.get(source);
    request.onsuccess = () => {
      if (request.result?.version === replaces) devices.put(row, source);
      else abort(new DeviceError('replaced', 'another tab has gone on, or the storage was cleared'));
    };
  });
  const stored = await read(source);
  if (!stored) throw new DeviceError('store', 'nothing is stored after a save');
  return stored.contents;
}
