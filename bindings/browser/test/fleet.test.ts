// Pages that come and go, against a real service: what left them is added up without the package.

import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Page } from 'playwright-core';
import { random, Service, sleep } from '../../../web/e2e/service';
import { Browser, offline, wipe } from './browser';
import { audited, Gate } from './gate';

const isLong = process.env.TIDEGATE_FLEET === 'long';
const PAGES = Number(process.env.TIDEGATE_PAGES ?? (isLong ? 200 : 12));
const TICKS = Number(process.env.TIDEGATE_TICKS ?? (isLong ? 50 : 16));
const TICK = Number(process.env.TIDEGATE_TICK ?? (isLong ? 6 : 3));
const WINDOW = 3;
const BUDGET = '3';
const DOMAIN = 4;

interface Told {
  timestamp?: number;
  kind: string;
  reason?: string;
  problem?: string;
}

/** A device: its pages, and what was done to it. */
interface Owner {
  name: string;
  value: number;
  page: Page | undefined;
  second: Page | undefined;
  isOffline: boolean;
  /** Its clock was set, so it need not answer. */
  isWrong: boolean;
  /** Timestamps during all of which a page was open and online. */
  there: Set<number>;
  /** The first timestamp of which it may know that a window has passed since its storage was empty. */
  from: number;
  told: Told[];
}

let service: Service;
let gate: Gate;
let browser: Browser;
const draw = random(Number(process.env.TIDEGATE_SEED ?? 34));

beforeAll(async () => {
  service = await Service.start('browser_origins = ["*"]\n');
  gate = await Gate.start(service.url, draw);
  browser = await Browser.start();
}, 120_000);

afterAll(async () => {
  await browser?.stop();
  gate?.stop();
  await service?.stop();
});

test(
  'no window of any page is exceeded, whatever happens to it',
  async () => {
    const stream = 'visits';
    const spec = {
      family: 'local',
      mechanism: 'lbu',
      oracle: 'grr',
      epsilon: Number(BUDGET),
      window: WINDOW,
      domain: DOMAIN,
      population: PAGES,
    };
    await service.create({ name: stream, tick: TICK, spec } as never);
    const { key } = JSON.parse(await service.read('/v1/operator-key')) as { key: string };
    const { policy } = JSON.parse(await service.read(`/v1/streams/${stream}/policy`)) as {
      policy: { ticks: { epoch: number; seconds: number } };
    };
    const now = (): number => Math.floor((Date.now() / 1000 - policy.ticks.epoch) / policy.ticks.seconds);
    const options = {
      server: gate.url,
      stream,
      source: 'position',
      operatorKey: key,
      clock: process.env.TIDEGATE_CLOCK,
      token: service.tokens.ingest,
    };
    const written = encodeURIComponent(JSON.stringify(options));
    const address = (owner: Owner): string => `${gate.origin(owner.name)}/?value=${owner.value}&options=${written}`;

    const owners: Owner[] = Array.from({ length: PAGES }, (_, number) => ({
      name: `d${number}`,
      value: number % DOMAIN,
      page: undefined,
      second: undefined,
      isOffline: false,
      isWrong: false,
      there: new Set<number>(),
      from: Infinity,
      told: [],
    }));
    const byOrigin = new Map(owners.map((owner) => [gate.origin(owner.name), owner]));
    await browser.context.exposeBinding('note', ({ page }, told: Told) => {
      byOrigin.get(new URL(page.url()).origin)?.told.push(told);
    });
    const open = async (owner: Owner): Promise<void> => {
      owner.page = await browser.page(address(owner));
      owner.isOffline = false;
      await owner.page.waitForFunction('"device" in globalThis', undefined, { timeout: 60_000 });
      if (owner.from === Infinity) owner.from = now() + WINDOW;
    };
    const began = Date.now();
    for (let at = 0; at < PAGES; at += 8) await Promise.all(owners.slice(at, at + 8).map((owner) => open(owner)));
    console.log(`${PAGES} pages are open after ${Date.now() - began} ms`);
    gate.losing = 0.1;

    const isThere = (owner: Owner): boolean => owner.page !== undefined && !owner.isOffline && !owner.isWrong;
    /** Something random happens to a device. */
    const happen = async (owner: Owner): Promise<void> => {
      const dice = draw();
      if (owner.page === undefined) {
        if (dice < 0.6) await open(owner);
      } else if (owner.isOffline) {
        if (dice < 0.6) {
          await offline(owner.page, false);
          owner.isOffline = false;
        }
      } else if (dice < 0.08) {
        await owner.second?.close();
        owner.second = undefined;
        await owner.page.close();
        owner.page = undefined;
      } else if (dice < 0.1) {
        await wipe(owner.page, gate.origin(owner.name));
        owner.from = Infinity;
        await owner.page.reload();
        await owner.page.waitForFunction('"device" in globalThis', undefined, { timeout: 60_000 });
        owner.from = now() + WINDOW + 1;
      } else if (dice < 0.13) {
        if (owner.second) {
          // The other tab goes on.
          await owner.page.close();
          owner.page = owner.second;
          owner.second = undefined;
        } else owner.second = await browser.page(address(owner));
      } else if (dice < 0.17) {
        if (owner.second) return;
        owner.isOffline = true;
        await offline(owner.page, true);
      } else if (dice < 0.18 && Number(owner.name.slice(1)) % 4 === 0) {
        // Only some clocks are ever set, so that most devices stay honest.
        owner.isWrong = true;
        const skew = Math.floor((draw() - 0.5) * 4 * WINDOW * TICK);
        await owner.page.evaluate((seconds) => void ((globalThis as { skew?: number }).skew = seconds), skew);
      } else if (owner.isWrong && dice < 0.4) {
        await owner.page.evaluate(() => void ((globalThis as { skew?: number }).skew = 0));
      }
    };

    const first = now() + 1;
    for (let tick = first; tick < first + TICKS; tick++) {
      while (now() < tick) await sleep(20);
      const before = owners.filter(isThere);
      const busy = owners.filter(() => draw() < 0.5);
      const faults = await Promise.allSettled(busy.map(happen));
      for (const fault of faults) if (fault.status === 'rejected') console.log(String(fault.reason).split('\n')[0]);
      if (now() > tick) console.log(`tick ${tick}: the machine is too slow for what happens in it`);
      while (now() === tick) await sleep(20);
      // Whatever happened to it in this timestamp, a device need not have answered.
      for (const owner of before) if (!busy.includes(owner)) owner.there.add(tick);
    }
    gate.losing = 0;
    for (const owner of owners) await Promise.all([owner.page?.close(), owner.second?.close()]);
    await sleep(2 * TICK * 1000);

    const sent = audited(gate, WINDOW, BUDGET);
    let could = 0;
    let did = 0;
    const missed: string[] = [];
    for (const owner of owners) {
      if (owner.isWrong) continue;
      for (const timestamp of owner.there) {
        if (timestamp < owner.from || !gate.asked.has(`${timestamp}/0`)) continue;
        could++;
        if (sent.get(owner.name)?.has(`${timestamp}/0`)) did++;
        else missed.push(`${owner.name} has missed ${timestamp}: ${JSON.stringify(owner.told.slice(-4))}`);
      }
    }
    const again = gate.sent.length - [...sent.values()].reduce((sum, reports) => sum + reports.size, 0);
    const reasons = new Map<string, number>();
    for (const { told } of owners)
      for (const { kind, reason, problem } of told) {
        const name = `${kind} ${reason ?? problem ?? ''}`;
        reasons.set(name, (reasons.get(name) ?? 0) + 1);
      }
    console.log(`${PAGES} pages, ${TICKS} ticks of ${TICK} s: ${gate.sent.length} requests, ${again} of them again`);
    console.log(`honest devices answered ${did} of ${could} questions: ${((100 * did) / could).toFixed(1)} %`);
    console.log(Object.fromEntries(reasons), missed.slice(0, 10));
    expect(again).toBeGreaterThan(0);
    expect(could).toBeGreaterThan(PAGES);
    expect(did / could).toBeGreaterThanOrEqual(0.95);
    await sums(stream, sent);
  },
  (PAGES * 2 + TICKS * TICK + 300) * 1000,
);

/** Every release says what the reports say that reached the service, by the oracle's formula. */
async function sums(stream: string, sent: ReturnType<typeof audited>): Promise<void> {
  const taken = new Set(
    gate.sent.filter((one) => one.isTaken).map((one) => `${one.device} ${one.body.toString('hex')}`),
  );
  const values = new Map<number, number[]>();
  for (const [device, reports] of sent)
    for (const { timestamp, bytes, id } of reports.values()) {
      const isTaken = [...taken].some((one) => one.startsWith(`${device} `) && one.includes(id));
      if (isTaken) values.set(timestamp, [...(values.get(timestamp) ?? []), bytes[0]!]);
    }
  const text = await service.read(`/v1/streams/${stream}/releases?limit=1000&format=json`);
  const { releases } = JSON.parse(text) as { releases: { timestamp: number; reports: number }[] };
  let compared = 0;
  for (const release of releases) {
    const reports = values.get(release.timestamp) ?? [];
    expect(release.reports, `reports of timestamp ${release.timestamp}`).toBe(reports.length);
    if (reports.length === 0) continue;
    const power = Math.E ** (Number(BUDGET) / WINDOW);
    const [p, q] = [power / (power + DOMAIN - 1), 1 / (power + DOMAIN - 1)];
    const expected = Array.from({ length: DOMAIN }, (_, value) => {
      const count = reports.filter((report) => report === value).length;
      return (count / reports.length - q) / (p - q);
    });
    const found = frequencies(release);
    for (const [value, frequency] of expected.entries()) expect(found[value]).toBeCloseTo(frequency, 9);
    compared++;
  }
  console.log(`${compared} releases are the sums of their reports`);
  expect(compared).toBeGreaterThan(TICKS / 2);
}

function frequencies(release: unknown): number[] {
  const { statistic } = release as { statistic: { histogram: { frequencies: number[] } } };
  return statistic.histogram.frequencies;
}
