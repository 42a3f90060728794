/**
 * A device in the browser: answers a collector's questions within its own differential privacy budget.
 *
 * ```js
 * import { Device } from '@tidegate/device';
 *
 * const device = await Device.open({
 *   server: 'https://collector.example',
 *   stream: 'visits',
 *   source: 'position',
 *   operatorKey: '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c',
 *   consent: (offer) => confirm(`${offer.policy.protects.epsilon} …`),
 * });
 * await device.run(() => valueNow());
 * ```
 */

export { Device, type Watcher } from './device.js';
export {
  DeviceError,
  type Answer,
  type DeviceOptions,
  type Offer,
  type OpenQuestion,
  type OpenQuestions,
  type Outcome,
  type Policy,
  type Question,
  type Receipt,
  type Spent,
  type TrustedClock,
  type Value,
} from './types.js';
