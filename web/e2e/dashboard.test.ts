// What a data team does with the dashboard, step by step, in Chromium against a real service.

import { readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { ReleaseRecord } from '../src/api/types';
import { axe, launch, open, signedIn, watched, type Watched } from './browser';
import { crowd, random, Service, until } from './service';

const PLACES = ['home', 'work', 'shop', 'transit', '<img src=x onerror=alert(1)>'];
const MINUTES = 240;

let service: Service;
let browser: Browser;
let opened: Watched[] = [];

async function as(role: 'operator' | 'analyst' | 'ingest', options = {}): Promise<Watched> {
  const made =
    role === 'ingest' ? await watched(browser, service, options) : await signedIn(browser, service, role, options);
  opened.push(made);
  return made;
}

/** Numbers that the table shows for a value, newest first. */
async function tableRows(page: Page): Promise<string[][]> {
  return page
    .locator('table.releases tbody tr')
    .evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent ?? '')));
}

beforeAll(async () => {
  service = await Service.start();
  browser = await launch();
  const draw = random(7);
  const spec = { family: 'central' as const, epsilon: 1, domain: PLACES, every: '1m' };
  const weights = (tick: number) => [45, 25, 12 + 10 * Math.sin(tick / 24), 12, 4];
  await service.past(
    {
      name: 'visits',
      tick: 60,
      spec: {
        ...spec,
        mechanism: 'ba',
        window: 20,
        monitors: [
          {
            name: 'crowded <b>shops</b>',
            value: 'shop',
            unit: 'counts',
            direction: 'above',
            start: 40,
            end: 30,
          },
        ],
        queries: [{ name: 'out', first: 'shop', last: 'transit', unit: 'counts' }],
      },
    },
    MINUTES,
    (tick) => crowd(draw, 200, PLACES, weights(tick)),
  );
  await service.past({ name: 'nearly-spent', tick: 60, spec: { ...spec, mechanism: 'uniform', window: 60 } }, 90, () =>
    crowd(draw, 20, PLACES, [1, 1, 1, 1, 1]),
  );
  await service.past(
    { name: 'heights', tick: 60, spec: { ...spec, mechanism: 'bd', window: 20, domain: 40 } },
    60,
    (tick) =>
      crowd(
        draw,
        100,
        Array.from({ length: 40 }, (_, value) => value),
        Array.from({ length: 40 }, (_, value) => Math.exp(-((value - 20 - 8 * Math.sin(tick / 9)) ** 2) / 20)),
      ),
  );
  await service.past(
    {
      name: 'load',
      tick: 60,
      spec: {
        family: 'scalar',
        mechanism: 'laplace',
        epsilon: 1,
        domain: { low: 0, high: 100 },
        protects: 'reading',
        every: '1m',
      },
    },
    60,
    (tick) => [{ value: 50 + 30 * Math.sin(tick / 10) }],
  );
  await service.create({
    name: 'districts',
    tick: 1,
    spec: {
      family: 'local',
      mechanism: 'lpu',
      epsilon: 2,
      window: 3,
      domain: ['north', 'south', 'east'],
      population: 2000,
      monitors: [{ name: 'rush', value: 'north', direction: 'above', start: -1 }],
    },
  });
  await service.create({
    name: 'ages',
    tick: 2,
    spec: { family: 'local', mechanism: 'mtsp', epsilon: 2, window: 10, domain: 10, population: 500 },
  });
  service.fleet('districts', 2000);
}, 120_000);

afterAll(async () => {
  await browser?.close();
  await service?.stop();
});

afterEach(async () => {
  const faults = opened.flatMap((one) => one.faults);
  for (const { page } of opened) await page.context().close();
  opened = [];
  expect(faults).toEqual([]);
});

describe('signing in', () => {
  it('takes the token out of the address at once, and keeps it for the tab only', async () => {
    const { page } = await as('analyst');
    expect(page.url()).not.toContain('token');
    expect(
      await page.evaluate(() => [sessionStorage.length, JSON.stringify(localStorage).includes('tg_'), document.cookie]),
    ).toEqual([1, false, '']);
    await page.reload();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Token of an analyst or an operator').waitFor();
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
  });

  it('by pasting tells what is wrong with a token, and offers what the role may do', async () => {
    const { page } = await as('ingest');
    await page.goto(service.url);
    const field = page.getByLabel('Token of an analyst or an operator');
    await field.fill('secret');
    await page.keyboard.press('Enter');
    await page.getByText('A token looks like').waitFor();
    await axe(page, 'sign in');
    await field.fill('tg_a_0000');
    await page.keyboard.press('Enter');
    await page.getByText('The service does not know this token. Sign in').waitFor();
    await field.fill(service.tokens.ingest);
    await page.keyboard.press('Enter');
    await page.getByText('This token sends data').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await field.fill(service.tokens.analyst);
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'visits' }).waitFor();
    expect(await page.getByRole('link', { name: 'New stream' }).count()).toBe(0);
    await open(page, '#/streams/visits');
    await page.getByRole('link', { name: 'Promise and budget' }).waitFor();
    expect(await page.getByRole('link', { name: 'Manage' }).count()).toBe(0);
    await open(page, '#/streams/visits/queries');
    await page.getByText('An operator saves monitors').waitFor();
    expect(await page.getByRole('button', { name: /Acknowledge|Save|Remove/ }).count()).toBe(0);
    // A token that the tab has kept was known once.
    await page.evaluate(() => sessionStorage.setItem(sessionStorage.key(0)!, 'tg_a_0000'));
    await page.reload();
    await page.getByText('The service does not know this token any more').waitFor();
  });
});

describe('the overview', () => {
  it('finds the stream whose budget is nearly spent, and the one with alarms', async () => {
    const { page } = await as('analyst');
    await page.getByRole('link', { name: 'visits' }).waitFor();
    // The devices of `ages` are not there.
    await page
      .getByRole('row', { name: /^ages/ })
      .getByText('no report has been counted yet')
      .waitFor({ timeout: 20_000 });
    await page.getByRole('button', { name: 'Budget left' }).click();
    const first = page.locator('.list .item[data-row="0"] a');
    await until('the order', async () => (await first.textContent()) === 'nearly-spent', 5);
    await page.keyboard.press('/');
    await page.keyboard.type('central.ba');
    await page.getByText('1 of 6 streams').waitFor();
    expect(page.url()).toContain('q=central.ba');
    await page.locator('.spark .band').waitFor();
    await page.getByRole('button', { name: 'Budget left' }).focus();
    await axe(page, 'overview');
  });
});

describe('a stream', () => {
  it('shows the numbers of the API in its table, and in every view', async () => {
    const { page } = await as('analyst');
    await open(page, '#/streams/visits?view=table&last=all&of=0,2');
    await page.locator('table.releases tbody tr').first().waitFor();
    const { releases } = await service.ask<{ releases: ReleaseRecord[] }>(
      'analyst',
      '/v1/streams/visits/releases?last=3',
    );
    const rows = await tableRows(page);
    for (const [place, record] of releases.reverse().entries()) {
      const statistic = record.release.statistic as { counts: { counts: number[] } };
      expect(rows[place]!.slice(1, 3)).toEqual([String(record.timestamp), record.release.freshness]);
      expect(Number(rows[place]![4]!.replace(',', ''))).toBe(statistic.counts.counts[0]);
      expect(Number(rows[place]![6]!.replace(',', ''))).toBe(statistic.counts.counts[2]);
    }
    await axe(page, 'table');
    for (const view of ['Lines', 'Stack', 'Heat map']) {
      await page.getByRole('button', { name: view, exact: true }).click();
      await page.locator('.plot canvas').first().waitFor();
      await axe(page, view);
    }
    // A value's name is text, whatever it contains.
    expect(await page.locator('img').count()).toBe(0);
    await open(page, '#/streams/ages?view=tree');
    const uncounted = page.getByRole('region', { name: 'No report has been counted yet' });
    expect(await uncounted.getByRole('region', { name: 'Command' }).textContent()).toContain(
      'tidegate device run --stream ages',
    );
    await page.getByRole('button', { name: /^0 to 7:/ }).click();
    expect(page.url()).toContain('of=0-7');
    await axe(page, 'tree');
    await open(page, '#/streams/load');
    await page.locator('.plot canvas').first().waitFor();
  });

  it('zooms, pans, and is the same again behind its address', async () => {
    const { page } = await as('analyst');
    await open(page, '#/streams/visits?view=lines&last=all');
    const plot = page.locator('.plot').first();
    await plot.locator('.u-over').waitFor();
    const box = (await plot.locator('.u-over').boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.25, box.y + 50);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.75, box.y + 60, { steps: 4 });
    await page.mouse.up();
    await until('a range in the address', () => /from=\d+&to=\d+|to=\d+/.test(page.url()), 5);
    const range = (): number[] =>
      ['from', 'to'].map((key) => Number(new URLSearchParams(page.url().split('?')[1]).get(key)));
    const [from, to] = range() as [number, number];
    expect((to - from) / 60 / MINUTES).toBeGreaterThan(0.4);
    expect((to - from) / 60 / MINUTES).toBeLessThan(0.6);
    await plot.focus();
    await page.keyboard.press('Shift+ArrowRight');
    await until('the range moved', () => range()[0]! > from, 5);
    await page.keyboard.press('+');
    await until('the range is shorter', () => range()[1]! - range()[0]! < to - from, 5);
    const address = page.url();
    // Chromium tells a chart that is drawn anew where the mouse rests.
    await page.mouse.move(2, 2);
    await page.keyboard.press('Escape');
    await page.keyboard.press('ArrowRight');
    const told = page.locator('.tooltip').first();
    await told.waitFor();
    const text = await told.textContent();
    // The crosshair is that of all charts.
    expect(await page.locator('.tooltip strong').allTextContents()).toEqual(
      Array(2).fill(text!.split(/(?<=\d\d:\d\d)/)[0]),
    );
    await page.reload();
    await plot.locator('.u-over').waitFor();
    await plot.focus();
    await page.keyboard.press('ArrowRight');
    await told.waitFor();
    expect([page.url(), await told.textContent()]).toEqual([address, text]);
  });

  it('explains a release that is chosen by keys', async () => {
    const { page } = await as('analyst');
    await open(page, '#/streams/visits?view=lines&last=all');
    await page.locator('.plot .u-over').first().waitFor();
    await page.locator('.plot').first().focus();
    await page.keyboard.press('End');
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('Enter');
    const panel = page.getByRole('region', { name: 'Why this release' });
    await panel.getByText('to measure the change').waitFor();
    const [record] = (
      await service.ask<{ releases: ReleaseRecord[] }>(
        'analyst',
        `/v1/streams/visits/releases?from=${MINUTES - 2}&to=${MINUTES - 2}`,
      )
    ).releases;
    const text = (await panel.textContent())!;
    expect(text).toContain(record!.release.freshness);
    expect(text).toContain(`Timestamp${record!.timestamp}`);
    expect(text).toMatch(/published|repeated/);
    await axe(page, 'explanation');
  });

  it('saves the service’s own tables, and pictures', async () => {
    const { page } = await as('analyst');
    await open(page, '#/streams/visits?view=lines&last=all');
    await page.locator('.plot .u-over').first().waitFor();
    const save = async (label: string): Promise<Buffer> => {
      await page.getByRole('button', { name: /Download/ }).click();
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('menuitem', { name: label }).click(),
      ]);
      return readFileSync((await download.path())!);
    };
    for (const [label, format] of [
      ['Table (CSV)', 'csv'],
      ['Lines of JSON (NDJSON)', 'ndjson'],
    ] as const) {
      const own = await service.read(`/v1/streams/visits/releases?format=${format}&limit=10000`);
      const saved = (await save(label)).toString();
      expect(saved).toBe(own);
      expect(saved.trim().split('\n').length).toBe(MINUTES * PLACES.length + (format === 'csv' ? 1 : 0));
    }
    const svg = (await save('Picture (SVG)')).toString();
    expect(svg).toMatch(/^<svg xmlns="http:\/\/www.w3.org\/2000\/svg"/);
    expect(svg).not.toContain('<img');
    expect(svg).toContain('&lt;img src=x');
    expect((svg.match(/<path d="M/g) ?? []).length).toBeGreaterThan(8);
    const png = await save('Picture (PNG)');
    expect([png.subarray(1, 4).toString(), png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual(['PNG', 2400, 1200]);
  });

  it('tells the promise and the budget as the service has it', async () => {
    const { page } = await as('analyst');
    await open(page, '#/streams/nearly-spent/promise');
    await page.getByText('Whatever happens in any 60 minutes (60 ticks) of one person').waitFor();
    const { budget } = await service.ask<{ budget: { next: { left: number }[] }[] }>(
      'analyst',
      '/v1/streams/nearly-spent/promise?last=10',
    );
    const left = Math.round(budget[0]!.next[0]!.left * 100);
    await page.getByRole('img', { name: new RegExp(`^${left}%`) }).waitFor();
    expect(left).toBeLessThan(10);
    await axe(page, 'promise');
  });
});

describe('the feed', () => {
  it('brings releases of a real fleet, and misses none while the service is killed', async () => {
    const { page } = await as('analyst');
    await open(page, '#/streams/districts?view=table&last=15m');
    await page.locator('.chip', { hasText: 'live' }).waitFor();
    const rows = page.locator('table.releases tbody tr');
    await rows.first().waitFor();
    const newest = async (): Promise<number> => Number((await tableRows(page))[0]?.[1] ?? 0);
    const before = await newest();
    await until('three more releases', async () => (await newest()) >= before + 3);
    await service.kill();
    await page.getByText('reconnecting').waitFor();
    await service.serve();
    await page.locator('.chip', { hasText: 'live' }).waitFor();
    const after = await newest();
    await until('releases after the restart', async () => (await newest()) >= after + 2);
    const { releases } = await service.ask<{ releases: ReleaseRecord[] }>(
      'analyst',
      '/v1/streams/districts/releases?last=30',
    );
    const shown = (await tableRows(page)).map((row) => Number(row[1]));
    const last = await newest();
    for (const { timestamp } of releases)
      if (timestamp <= last && timestamp >= shown.at(-1)!) expect(shown).toContain(timestamp);
  });
});

describe('alarms', () => {
  it('fire, and are acknowledged by an operator', async () => {
    const { page } = await as('operator');
    await open(page, '#/streams/districts/queries');
    const alarm = page.getByRole('row', { name: /^rush/ });
    await alarm.getByText('active').waitFor();
    await alarm.getByRole('button', { name: /^Acknowledge/ }).click();
    await alarm.getByText(/^by operator/).waitFor();
    const { alarms } = await service.ask<{ alarms: { acknowledged: { by: string } | null }[] }>(
      'analyst',
      '/v1/streams/districts/alarms',
    );
    expect(alarms.at(-1)!.acknowledged!.by).toBe('operator');
  });

  it('are set by dragging a threshold on the chart, or by keys', async () => {
    const { page } = await as('operator');
    await open(page, '#/streams/visits/queries');
    await page.getByText('crowded <b>shops</b>').first().waitFor();
    const builder = page.getByRole('region', { name: 'New monitor' });
    const start = builder.getByRole('slider', { name: /^starts above/ });
    const value = async (): Promise<number> => Number(await start.getAttribute('aria-valuenow'));
    const begin = await value();
    const box = (await start.boundingBox())!;
    await page.mouse.move(box.x + 200, box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.move(box.x + 200, box.y + box.height / 2 + 40, { steps: 5 });
    await page.mouse.up();
    await until('the threshold is lower', async () => (await value()) < begin, 5);
    const dragged = await value();
    await start.focus();
    await page.keyboard.press('ArrowUp');
    await until('the threshold is higher', async () => (await value()) > dragged, 5);
    await builder.getByText(/it would have raised/).waitFor();
    const end = builder.getByLabel('End', { exact: true });
    expect(Number(await end.inputValue())).toBeLessThan(await value());
    const field = builder.getByLabel('Start', { exact: true });
    const text = await field.inputValue();
    await builder.getByLabel('Name of the monitor').fill('at home');
    await field.fill('');
    await builder.getByText('Start and end must be numbers').waitFor();
    expect(await field.getAttribute('aria-invalid')).toBe('true');
    expect(await builder.getByRole('button', { name: 'Save monitor' }).isDisabled()).toBe(true);
    await field.fill(text);
    await builder.getByRole('button', { name: 'Save monitor' }).click();
    await builder.getByText('“at home” watches every release').waitFor();
    type Declared = { spec: { monitors: { name: string; start: number; value: string }[] } };
    const declared = async () => (await service.ask<Declared>('operator', '/v1/streams/visits')).spec.monitors;
    await until('the monitor in the declaration', async () => (await declared()).length === 2, 10);
    expect((await declared())[1]).toMatchObject({ name: 'at home', start: await value(), value: 'home' });
    await axe(page, 'queries');
  });
});

describe('queries', () => {
  it('are answered with their interval while they are written, and saved', async () => {
    const { page } = await as('operator');
    await open(page, '#/streams/visits/queries');
    const asking = page.getByRole('region', { name: 'Ask', exact: true });
    await asking.getByLabel('About').selectOption('range');
    await asking.locator('label', { hasText: /^To/ }).locator('select').selectOption('1');
    await asking.getByLabel('Summed over ticks').fill('10');
    await asking.getByLabel('Unit').selectOption('counts');
    const own = await service.ask<{ value: number; low: number }>('analyst', '/v1/streams/visits/query', {
      first: 'home',
      last: 'work',
      delta: 10,
      unit: 'counts',
    });
    await until(
      'the answer of the service',
      async () =>
        ((await asking.locator('strong').first().textContent()) ?? '').replace(',', '') ===
        String(Math.round(own.value)),
      10,
    );
    await asking.getByText(/95% interval/).waitFor();
    await asking.getByLabel('Summed over ticks').fill('0');
    await asking.getByText('Expected: a whole number from 1 to 10000').waitFor();
    await until('no answer', async () => (await asking.getByText(/95% interval/).count()) === 0, 5);
    await asking.getByLabel('Summed over ticks').fill('10');
    await asking.getByText(/95% interval/).waitFor();
    await asking.getByLabel('Name of the standing query').fill('home or work');
    await asking.getByRole('button', { name: 'Save as standing query' }).click();
    await asking.getByText('“home or work” is answered with every release').waitFor();
    await page.getByRole('region', { name: 'Standing queries and monitors' }).getByText('home or work').waitFor();
  });
});

describe('operators', () => {
  it('create a stream from the form, pause it, resume it and retire it', async () => {
    const { page } = await as('operator');
    await page.getByRole('link', { name: 'New stream' }).click();
    await page.getByRole('button', { name: 'Predict the error' }).click();
    await page.getByText('Please complete the marked answers').waitFor();
    await axe(page, 'form');
    await page.getByLabel('Name', { exact: true }).fill('offices');
    await page.getByLabel('This service').check();
    await page.getByLabel('Possible values').fill('in, out');
    await page.getByLabel('About how many users').fill('2000');
    await page.getByRole('button', { name: 'Predict the error' }).click();
    await page.getByRole('heading', { name: 'Predicted error' }).waitFor({ timeout: 40_000 });
    await page.getByText('Whatever happens in any 24 hours (24 ticks)').waitFor();
    expect(await page.getByRole('region', { name: 'Declaration, for service.toml' }).textContent()).toContain(
      'domain = ["in", "out"]',
    );
    expect(await page.getByRole('region', { name: 'The same for curl' }).textContent()).toContain(
      `curl --fail-with-body '${service.url}/v1/streams'`,
    );
    await axe(page, 'prediction');
    const [request] = await Promise.all([
      page.waitForRequest((one) => one.method() === 'POST' && one.url().endsWith('/v1/streams')),
      page.getByRole('button', { name: 'Create the stream' }).click(),
    ]);
    expect(await request.headerValue('if-none-match')).toBe('*');
    await page.getByRole('heading', { name: 'offices', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'Manage' }).click();
    const main = page.getByRole('main');
    await page.getByRole('button', { name: 'Pause…' }).click();
    await page.getByText('What happens meanwhile is never released').waitFor();
    await axe(page, 'confirmation');
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await main.getByText('paused', { exact: true }).first().waitFor();
    await page.getByRole('button', { name: 'Resume…' }).click();
    await page.getByRole('button', { name: 'Resume', exact: true }).click();
    await main.getByText('running', { exact: true }).first().waitFor();
    await page.getByRole('button', { name: 'Retire…' }).click();
    const retire = page.getByRole('button', { name: 'Retire', exact: true });
    await page.getByText('nobody can resume it').waitFor();
    expect(await retire.isDisabled()).toBe(true);
    await page.getByLabel(/To confirm, write the name/).fill('offices');
    await retire.click();
    await page.getByText('A retired stream stays retired').waitFor();
    expect(await service.ask('operator', '/v1/streams/offices')).toMatchObject({ status: 'retired', tick: 3600 });
  });

  it('see how the service does', async () => {
    const { page } = await as('operator');
    await page.getByRole('link', { name: 'Operations' }).click();
    await page.getByText('Reports a second').waitFor();
    await page.getByRole('row', { name: /^districts/ }).waitFor();
    await axe(page, 'operations');
  });
});

describe('keys', () => {
  it('reach everything, with a focus that can be seen', async () => {
    const { page } = await as('operator');
    await page.getByRole('link', { name: 'visits' }).waitFor();
    await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
    const reached: string[] = [];
    for (let step = 0; step < 14; step++) {
      await page.keyboard.press('Tab');
      const found = await page.evaluate(() => {
        const at = document.activeElement as HTMLElement;
        const shown = [at, at.closest('.item') ?? at].some(
          (one) => getComputedStyle(one).outlineStyle !== 'none' && getComputedStyle(one).outlineWidth !== '0px',
        );
        return { name: at.textContent?.trim() || at.getAttribute('aria-label') || at.tagName, shown };
      });
      expect(found.shown, `focus on ${found.name}`).toBe(true);
      reached.push(found.name);
    }
    expect(reached).toEqual(
      expect.arrayContaining(['Skip to the content', 'Streams', 'Operations', 'New stream', 'Sign out']),
    );
    await page.locator('.list .item[data-row="0"] a').focus();
    await page.keyboard.press('End');
    await until(
      'the last row',
      async () => (await page.evaluate(() => document.activeElement?.textContent)) === 'visits',
      5,
    );
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'visits', level: 1 }).waitFor();
  });
});
