// Times, memory and size: what the dashboard needs with a full day, and with thousands of streams.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { axe, launch, open, signedIn, watched } from './browser';
import { crowd, random, Service, until } from './service';

const STREAMS = Number(process.env.TIDEGATE_STREAMS ?? 5000);
const TICKS = 1440;
const VALUES = 50;

let service: Service;
let browser: Browser;

beforeAll(async () => {
  service = await Service.start();
  browser = await launch();
  const draw = random(3);
  const values = Array.from({ length: VALUES }, (_, value) => value);
  await service.past(
    {
      name: 'day',
      tick: 60,
      spec: { family: 'central', mechanism: 'uniform', epsilon: 1, window: 60, domain: VALUES, every: '1m' },
    },
    TICKS,
    () =>
      crowd(
        draw,
        10,
        values,
        values.map(() => 1),
      ),
  );
  const spec = { family: 'central' as const, mechanism: 'uniform', epsilon: 1, window: 7, domain: ['in', 'out'] };
  for (let first = 0; first < STREAMS; first += 20) {
    const names = Array.from(
      { length: Math.min(20, STREAMS - first) },
      (_, place) => `many-${String(first + place).padStart(5, '0')}`,
    );
    await Promise.all(names.map((name) => service.create({ name, tick: 86_400, spec })));
  }
}, 300_000);

afterAll(async () => {
  await browser?.close();
  await service?.stop();
});

const told = (what: string, figure: string): void => console.log(`measured: ${what}: ${figure}`);

describe('the dashboard', () => {
  it('is small', () => {
    const folder = '../crates/server/assets';
    const sizes = readdirSync(folder).map(
      (name) => [name, gzipSync(readFileSync(join(folder, name)), { level: 9 }).length] as const,
    );
    told('size, gzipped', sizes.map(([name, size]) => `${name} ${size}`).join(', '));
    expect(sizes.reduce((sum, [, size]) => sum + size, 0)).toBeLessThan(80_000);
  });

  it('loads quickly, and asks no other host', async () => {
    const { page, faults, requests } = await watched(browser, service);
    await page.goto(`${service.url}/#token=${service.tokens.analyst}`);
    await page.getByRole('link', { name: 'many-00000' }).waitFor();
    const shown = await page.evaluate(() => {
      const [entry] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[];
      const paint = performance.getEntriesByName('first-contentful-paint')[0];
      return [entry!.domContentLoadedEventEnd, paint?.startTime ?? NaN];
    });
    told('page loaded, first paint in ms', shown.map(Math.round).join(', '));
    expect(requests.length).toBeGreaterThan(3);
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it(`scrolls through ${STREAMS} streams without a hitch`, async () => {
    const { page, faults } = await signedIn(browser, service, 'analyst');
    await page.getByText(`${(STREAMS + 1).toLocaleString('en-GB')} of`).waitFor();
    expect(await page.locator('.list .item').count()).toBeLessThan(40);
    const frames = await page.evaluate(async () => {
      const times: number[] = [];
      let last = performance.now();
      for (let frame = 0; frame < 180; frame++) {
        scrollBy(0, 240);
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        times.push(now - last);
        last = now;
      }
      return times.sort((one, other) => one - other);
    });
    const at = (share: number): number => frames[Math.floor((frames.length - 1) * share)]!;
    told(
      `frames while scrolling ${STREAMS} streams, ms: median, 95 %, longest`,
      [0.5, 0.95, 1].map((share) => at(share).toFixed(1)).join(', '),
    );
    expect(at(0.5)).toBeLessThan(34);
    await axe(page, `${STREAMS} streams`);
    await page.getByRole('searchbox', { name: 'Search' }).fill(String(STREAMS - 1).padStart(5, '0'));
    await page.getByText('1 of').waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it(`stays small with a day of ${TICKS} releases of ${VALUES} values`, async () => {
    const { page, faults } = await signedIn(browser, service, 'analyst');
    await open(page, '#/streams/day?view=heat&last=all');
    await page.locator('.plot canvas').first().waitFor();
    await page.getByRole('button', { name: 'Lines', exact: true }).click();
    await page.locator('.plot .u-over').first().waitFor();
    const session = await page.context().newCDPSession(page);
    const heap = async (): Promise<number> => {
      await session.send('HeapProfiler.collectGarbage');
      return page.evaluate(
        () => (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize,
      );
    };
    let used = await heap();
    await until('the heap is settled', async () => {
      const next = await heap();
      const isSettled = Math.abs(next - used) < 1_000_000;
      used = next;
      return isSettled;
    });
    told('JavaScript heap in MB', (used / 1e6).toFixed(1));
    expect(used).toBeLessThan(60e6);
    expect(faults).toEqual([]);
    await page.context().close();
  });
});
