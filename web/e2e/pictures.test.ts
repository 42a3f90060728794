// Pictures at three sizes in both themes, to be looked at. The README shows one of them.

import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch, open, signedIn } from './browser';
import { smaller } from './png';
import { crowd, random, Service } from './service';

const FOLDER = process.env.TIDEGATE_PICTURES ?? '../target/dashboard';
const README = process.env.TIDEGATE_README_PICTURE;
const DISTRICTS = ['Old town', 'Harbour', 'Station', 'University', 'Stadium', 'Gardens'];
const MINUTES = 180;

let service: Service;
let browser: Browser;

/** People of a city by the hour of the day, with a rush at the stadium. */
const weights = (tick: number): number[] => {
  const day = (tick / MINUTES) * 2 * Math.PI;
  return [
    30 + 8 * Math.sin(day),
    22 - 6 * Math.sin(day),
    18 + 5 * Math.sin(2 * day),
    14 + 4 * Math.cos(day),
    4 + 26 * Math.exp(-(((tick - 124) / 14) ** 2)),
    10 - 3 * Math.cos(day),
  ];
};

beforeAll(async () => {
  mkdirSync(FOLDER, { recursive: true });
  service = await Service.start();
  browser = await launch();
  const draw = random(11);
  await service.past(
    {
      name: 'city',
      tick: 60,
      spec: {
        family: 'central',
        mechanism: 'track',
        epsilon: 1,
        window: 60,
        domain: DISTRICTS,
        every: '1m',
        monitors: [
          {
            name: 'rush at the stadium',
            value: 'Stadium',
            unit: 'counts',
            direction: 'above',
            start: 500,
            end: 350,
          },
        ],
      },
    },
    MINUTES,
    (tick) => crowd(draw, 2000, DISTRICTS, weights(tick)),
  );
  const many = Array.from({ length: 48 }, (_, value) => value);
  await service.past(
    {
      name: 'floors',
      tick: 60,
      spec: { family: 'central', mechanism: 'uniform', epsilon: 4, window: 20, domain: 48, every: '1m' },
    },
    180,
    (tick) =>
      crowd(
        draw,
        1500,
        many,
        many.map((value) => Math.exp(-((value - 24 - 14 * Math.sin(tick / 30)) ** 2) / 40)),
      ),
  );
  await service.past(
    {
      name: 'load',
      tick: 60,
      spec: {
        family: 'scalar',
        mechanism: 'pegasus',
        epsilon: 1,
        domain: { low: 0, high: 100 },
        protects: 'reading',
        every: '1m',
      },
    },
    120,
    (tick) => [{ value: 50 + 30 * Math.sin(tick / 10) }],
  );
}, 120_000);

afterAll(async () => {
  await browser?.close();
  await service?.stop();
});

const SIZES = [
  { name: 'desktop', width: 1360, height: 860 },
  { name: 'phone', width: 390, height: 844 },
  { name: 'wall', width: 2560, height: 1440 },
];
const PAGES = [
  { name: 'overview', address: '#/' },
  { name: 'lines', address: `#/streams/city?last=all&at=${MINUTES - 56}` },
  { name: 'heat', address: '#/streams/floors?last=all' },
  { name: 'promise', address: '#/streams/city/promise' },
  { name: 'queries', address: '#/streams/city/queries' },
  { name: 'create', address: '#/create' },
  { name: 'operations', address: '#/operations' },
];

describe('pictures', () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    it(`are taken of every page at three sizes, ${colorScheme}`, async () => {
      const { page, faults } = await signedIn(browser, service, 'operator', { colorScheme });
      for (const { name: size, ...viewport } of SIZES) {
        await page.setViewportSize(viewport);
        for (const { name, address } of PAGES) {
          await open(page, address);
          await page.waitForLoadState('networkidle').catch(() => undefined);
          await page.waitForTimeout(250);
          await page.screenshot({ path: join(FOLDER, `${name}-${size}-${colorScheme}.png`) });
          // Nothing is wider than the window.
          const tooWide = await page.evaluate(
            () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
          );
          expect(tooWide, `${name} on a ${size}`).toBeLessThanOrEqual(0);
        }
      }
      expect(faults).toEqual([]);
      await page.context().close();
    });
  }

  it.runIf(README)('are written for the README', async () => {
    await service.ask('operator', '/v1/streams/city/resume', {});
    const { page } = await signedIn(browser, service, 'analyst', { viewport: { width: 1360, height: 790 } });
    await open(page, `#/streams/city?last=all&of=0,4&at=${MINUTES - 56}`);
    await page.getByRole('region', { name: 'Why this release' }).getByText('Timestamp', { exact: true }).waitFor();
    writeFileSync(README!, smaller(await page.screenshot()));
    expect(statSync(README!).size).toBeLessThan(150_000);
    await page.context().close();
  });
});
