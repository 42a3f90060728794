// A page of the tests. Its address has the options; the clock of its computer can be set.
import { Device, DeviceError } from '/dist/index.js';

const real = Date.now;
const query = new URLSearchParams(location.search);
globalThis.skew = Number(query.get('skew') ?? 0);
Date.now = () => real.call(Date) + globalThis.skew * 1000;

const options = {
  ...JSON.parse(query.get('options') ?? '{}'),
  consent: (offer) => {
    globalThis.offers.push(offer);
    return globalThis.consents;
  },
};
globalThis.offers = [];
globalThis.consents = query.get('consents') !== 'no';
globalThis.Device = Device;
globalThis.DeviceError = DeviceError;
globalThis.options = options;
globalThis.ended = new AbortController();

if (query.has('value')) {
  const value = Number(query.get('value'));
  try {
    const device = await Device.open(options);
    globalThis.device = device;
    await device.run(() => value, {
      signal: globalThis.ended.signal,
      onOutcome: ({ question, kind, reason, problem, receipt }) =>
        globalThis.note?.({ timestamp: question.timestamp, kind, reason, problem, receipt }),
      onError: (error) => globalThis.note?.({ kind: 'error', problem: `${error.code}: ${error.message}` }),
    });
  } catch (error) {
    globalThis.note?.({ kind: 'failed', problem: `${error.code}: ${error.message}` });
  }
}
globalThis.isReady = true;
