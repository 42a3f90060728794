// A Service Worker that reports now and then without an open page, where the browser has periodic background sync. The
// page that registers it (`navigator.serviceWorker.register('worker.js', { type: 'module' })`) has asked for consent: a
// worker has nobody to ask. Build it with a bundler, since workers have no import maps.
import { Device } from '@tidegate/device';
import { settings, valueNow } from './settings.js';

async function report() {
  const device = await Device.open({ ...settings, consent: () => false });
  try {
    await device.report(await valueNow(), AbortSignal.timeout(20_000));
  } finally {
    device.close();
  }
}

self.addEventListener('periodicsync', (event) => {
  if (event.tag === 'tidegate') event.waitUntil(report());
});
