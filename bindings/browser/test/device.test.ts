// One device at a time: consent, tabs, lost answers, storage, and a script that wants more than the ledger allows.

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Page } from 'playwright-core';
import type { Answer, Device, DeviceError, Offer, Question } from '../src/index';
import { Service, sleep, until } from '../../../web/e2e/service';
import { Browser, wipe } from './browser';
import { audited, billionths, Gate, reportOf } from './gate';

/** What `page.js` puts into a page. */
interface Scope {
  Device: typeof Device;
  device: Device;
  options: Parameters<typeof Device.open>[0];
  offers: Offer[];
  skew: number;
}

const TICK = Number(process.env.TIDEGATE_TICK ?? 2);
const WINDOW = 3;

let service: Service;
let gate: Gate;
let browser: Browser;
let key: string;
let number = 0;
let device: string;

beforeAll(async () => {
  service = await Service.start('browser_origins = ["*"]\n');
  gate = await Gate.start(service.url, () => 0.5);
  browser = await Browser.start();
  ({ key } = JSON.parse(await service.read('/v1/operator-key')) as { key: string });
  for (const [name, epsilon, domain] of [
    ['visits', 3, 4],
    ['noises', 12, 4],
  ] as const) {
    const spec = { family: 'local', mechanism: 'lbu', oracle: 'grr', epsilon, window: WINDOW, domain, population: 100 };
    await service.create({ name, tick: TICK, spec } as never);
  }
}, 120_000);

afterAll(async () => {
  await browser?.stop();
  gate?.stop();
  await service?.stop();
});

beforeEach(() => {
  gate.sent.length = 0;
  gate.losing = 0;
  device = `e${number++}`;
});

function address(more: Record<string, string> = {}, change: Record<string, unknown> = {}): string {
  const options = {
    server: gate.url,
    stream: 'visits',
    source: 'position',
    operatorKey: key,
    clock: process.env.TIDEGATE_CLOCK,
    ...change,
  };
  const query = new URLSearchParams({ options: JSON.stringify({ ...options, token: service.tokens.ingest }), ...more });
  return `${gate.origin(device)}/?${query.toString()}`;
}

const ready = (page: Page): Promise<unknown> => page.waitForFunction('globalThis.isReady || globalThis.device');

async function tab(more: Record<string, string> = {}, change: Record<string, unknown> = {}): Promise<Page> {
  const page = await browser.page(address(more, change));
  await ready(page);
  return page;
}

/** Opens the device of a page; returns an error's code. */
function opened(page: Page, change: Record<string, unknown> = {}): Promise<string> {
  return page.evaluate(async (change) => {
    const scope = globalThis as unknown as Scope;
    try {
      scope.device = await scope.Device.open({ ...scope.options, ...change });
      return 'opened';
    } catch (error) {
      return (error as DeviceError).code;
    }
  }, change);
}

const isSent = (): Promise<void> => until('a report leaves', () => gate.sent.some((one) => one.isTaken), 40);

/** The open question of the stream. */
async function asked(stream = 'visits'): Promise<Question> {
  for (;;) {
    const text = await service.read(`/v1/streams/${stream}/questions`);
    const { questions } = JSON.parse(text) as { questions: { question: Question; closes: number }[] };
    const [first] = questions;
    if (first && first.closes > Date.now() + 800) return first.question;
    await sleep(50);
  }
}

test('nothing is enrolled without the consent of the owner, who sees the policy', async () => {
  const page = await tab({ consents: 'no' });
  expect(await opened(page)).toBe('declined');
  const [offer] = await page.evaluate(() => (globalThis as unknown as Scope).offers);
  expect(offer?.kind).toBe('new');
  expect(offer?.policy.protects).toEqual({ epsilon: '3', window: { timestamps: WINDOW }, domain: 4 });
  expect(offer?.fingerprint).toMatch(/^[0-9a-f]{64}$/);
  expect(offer?.clock).toMatch(/signed time/);
  const databases = await page.evaluate(async () => {
    const request = indexedDB.open('tidegate');
    await new Promise((resolve) => (request.onsuccess = resolve));
    const devices = request.result.transaction('devices').objectStore('devices').count();
    await new Promise((resolve) => (devices.onsuccess = resolve));
    return devices.result;
  });
  expect(databases).toBe(0);
});

test('a policy that the trusted operator has not signed is refused', async () => {
  const page = await tab();
  const other = '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c';
  expect(await opened(page, { operatorKey: other })).toBe('policy');
  expect(await opened(page, { operatorKey: '00'.repeat(32) })).toBe('argument');
  expect(await opened(page, { stream: 'missing' })).toBe('refused_by_service');
  expect(await opened(page, { server: 'http://collector.example' })).toBe('argument');
});

test('the data stay under their first policy unless the owner consents to another', async () => {
  const page = await tab();
  expect(await opened(page)).toBe('opened');
  await page.evaluate(() => (globalThis as unknown as Scope).device.close());
  expect(await opened(page, { stream: 'noises', consent: undefined })).not.toBe('opened');
  expect(await opened(page, { stream: 'noises' })).toBe('opened');
  const offers = await page.evaluate(() => (globalThis as unknown as Scope).offers);
  expect(offers.at(-1)).toMatchObject({
    kind: 'change',
    difference: expect.stringContaining('epsilon 12 instead of 3'),
  });
});

test('an answer that was lost is asked for again with identical bytes', async () => {
  const page = await tab({ value: '1' });
  await isSent();
  gate.losing = 1;
  const before = gate.sent.length;
  await until('answers are lost', () => gate.sent.length > before + 1, 40);
  gate.losing = 0;
  const reports = audited(gate, WINDOW, '3').get(device)!;
  expect(gate.sent.length).toBeGreaterThan(reports.size);
  await page.close();
});

test('two tabs are one device, and the second goes on when the first is closed', async () => {
  const first = await tab({ value: '1' });
  const second = await tab({ value: '2' });
  await isSent();
  await sleep(2 * TICK * 1000);
  const question = await asked();
  const both = await Promise.all(
    [first, second].map((page, value) =>
      page.evaluate(
        async ([question, value]) => {
          const answer = await (globalThis as unknown as Scope).device.answer(question, value);
          return answer.kind === 'report' ? [...answer.batch].join() : answer.kind;
        },
        [question, value] as const,
      ),
    ),
  );
  expect(both[0]).toBe(both[1]);
  await first.close();
  const before = audited(gate, WINDOW, '3').get(device)!.size;
  await until('the second reports', () => audited(gate, WINDOW, '3').get(device)!.size > before + 1, 40);
  await second.close();
});

test('a page that is opened again goes on within its window', async () => {
  let page = await tab({ value: '1' });
  await isSent();
  for (let visit = 0; visit < 3; visit++) {
    await page.close();
    await sleep(TICK * 1000);
    const before = audited(gate, WINDOW, '3').get(device)!.size;
    page = await tab({ value: '1' });
    await until('it reports again', () => audited(gate, WINDOW, '3').get(device)!.size > before, 3 * TICK);
  }
  await page.close();
});

test('a device whose storage is cleared is silent for a window', async () => {
  const page = await tab({ value: '1' });
  await isSent();
  await wipe(page, gate.origin(device));
  await page.reload();
  await ready(page);
  const spent = await page.evaluate(() => (globalThis as unknown as Scope).device.spent());
  expect(spent.spent).toBe(spent.budget);
  await sleep((WINDOW + 2) * TICK * 1000);
  audited(gate, WINDOW, '3');
  await page.close();
});

test('a hostile script gets no more than the ledger allows', async () => {
  const page = await tab({ value: '1' });
  const second = await tab({ value: '1' });
  await isSent();
  const got: { question: Question; batch: number[] }[] = [];
  const end = Date.now() + 5 * TICK * 1000;
  while (Date.now() < end) {
    const question = await asked();
    /** Everything that a script can ask for: many values, more epsilon, other phases and times, from both tabs. */
    const attack = async (question: Question): Promise<[Question, number[]][]> => {
      const { device } = globalThis as unknown as Scope;
      const questions = [
        question,
        { ...question, epsilon: '3' },
        { ...question, phase: 1 },
        { ...question, phase: 1, epsilon: '2' },
        { ...question, phase: 2, epsilon: '0.5' },
        { ...question, phase: 65_535, epsilon: '0.000000001' },
        { ...question, timestamp: question.timestamp + 1 },
        { ...question, timestamp: question.timestamp - 1 },
        { ...question, domain: 5 },
      ];
      const tries = questions.flatMap((question) => [0, 1, 2, 3].map((value) => [question, value] as const));
      const replies = await Promise.allSettled(tries.map(([question, value]) => device.answer(question, value)));
      return replies.flatMap((reply, at): [Question, number[]][] => {
        const answer: Answer | undefined = reply.status === 'fulfilled' ? reply.value : undefined;
        return answer?.kind === 'report' ? [[tries[at]![0], [...answer.batch]]] : [];
      });
    };
    for (const found of await Promise.all([page, second].map((one) => one.evaluate(attack, question))))
      for (const [question, batch] of found) got.push({ question, batch });
  }
  expect(got.length).toBeGreaterThan(0);
  // By phase: one report only, whatever its value was; and no window has lost more than the budget.
  const phases = new Map<string, { timestamp: number; epsilon: string; batch: string }>();
  for (const { question, batch } of got) {
    const bytes = Buffer.from(batch);
    const { timestamp, phase } = reportOf(bytes);
    expect([timestamp, phase]).toEqual([question.timestamp, question.phase]);
    const before = phases.get(`${timestamp}/${phase}`);
    if (before) expect([bytes.toString('hex'), question.epsilon]).toEqual([before.batch, before.epsilon]);
    phases.set(`${timestamp}/${phase}`, { timestamp, epsilon: question.epsilon, batch: bytes.toString('hex') });
  }
  // What the page itself has sent meanwhile counts as well.
  for (const [name, { timestamp, bytes }] of audited(gate, WINDOW, '3').get(device)!) {
    const before = phases.get(name);
    if (before) expect(Buffer.from(before.batch, 'hex').subarray(56)).toEqual(bytes);
    else phases.set(name, { timestamp, epsilon: gate.asked.get(name)!, batch: '' });
  }
  for (const { timestamp: end } of phases.values()) {
    const inside = [...phases.values()].filter(({ timestamp }) => timestamp > end - WINDOW && timestamp <= end);
    const spent = inside.reduce((sum, { epsilon }) => sum + billionths(epsilon), 0n);
    expect(spent).toBeLessThanOrEqual(billionths('3'));
  }
  // The parts that could be misused are not in reach.
  const names = await page.evaluate(() => {
    const { device } = globalThis as unknown as Scope;
    return [...Object.getOwnPropertyNames(device), ...Object.getOwnPropertySymbols(device)].map(String);
  });
  expect(names).toEqual([]);
  await Promise.all([page.close(), second.close()]);
});
