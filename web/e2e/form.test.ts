// The form of a new stream, in Chromium against a real service.

import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { axe, launch, open, signedIn, type Watched } from './browser';
import { Service } from './service';

let service: Service;
let browser: Browser;
let opened: Watched;

beforeAll(async () => {
  service = await Service.start();
  browser = await launch();
  await service.create({
    name: 'visits',
    tick: 60,
    spec: { family: 'central', mechanism: 'ba', epsilon: 1, window: 2, domain: 2 },
  });
}, 60_000);

afterAll(async () => {
  await browser?.close();
  await service?.stop();
});

beforeEach(async () => {
  opened = await signedIn(browser, service, 'operator');
  await open(opened.page, '#/create');
});

afterEach(async () => {
  await opened.page.context().close();
  expect(opened.faults).toEqual([]);
});

describe('operators', () => {
  it('are told at once that a name is taken, and write in fields as they like', async () => {
    const { page } = opened;
    const name = page.getByLabel('Name', { exact: true });
    await name.fill('visits');
    await page.getByText('a stream of that name exists').waitFor();
    expect(await name.getAttribute('aria-invalid')).toBe('true');
    await name.fill('visitors');
    const tick = page.locator('input[name=tick]');
    await tick.press('End');
    await tick.press('Backspace');
    await tick.pressSequentially('30');
    expect(await tick.inputValue()).toBe('30');
    await page.getByText('releases every 30 hours').waitFor();
    await tick.fill('2.5');
    await page.getByRole('button', { name: 'Predict the error' }).click();
    await page.getByText('Expected: a whole number, 1 or more').waitFor();
  });

  it('declare that only enrolled devices count', async () => {
    const { page } = opened;
    await page.getByLabel('Name', { exact: true }).fill('enrolled');
    await page.getByLabel('Possible values').fill('in, out');
    await page.getByLabel('About how many users').fill('2000');
    await page.getByLabel(/^Only enrolled devices count/).check();
    await page.getByRole('button', { name: 'Predict the error' }).click();
    await page.getByRole('heading', { name: 'Predicted error' }).waitFor({ timeout: 40_000 });
    await page.getByText('root mean squared error of a value, in percent of the users').first().waitFor();
    await page.getByRole('button', { name: 'Create the stream' }).click();
    await page.getByRole('link', { name: 'Promise and budget' }).click();
    await page.getByText('at most one report of each enrolled device counts').waitFor();
    await page.getByRole('link', { name: 'Manage' }).click();
    const text = await page.getByRole('region', { name: 'Declaration, for service.toml' }).textContent();
    expect(text).toMatch(/^\[\[streams\]\]\nname = "enrolled"\ntick = 3600\nepoch = 0\n/);
    expect(text).toContain('credentials = true');
    await page.getByRole('link', { name: 'Releases' }).click();
    const command = page.getByRole('region', { name: 'Command', exact: true });
    expect(await command.textContent()).toContain('--credential-file');
    await axe(page, 'empty stream');
  });

  it('replace no stream that somebody else has created meanwhile', async () => {
    const { page } = opened;
    await page.getByLabel('Name', { exact: true }).fill('raced');
    await page.getByLabel('This service').check();
    await page.getByLabel('Possible values').fill('in, out');
    await page.getByLabel('About how many users').fill('2000');
    await page.getByRole('button', { name: 'Predict the error' }).click();
    const button = page.getByRole('button', { name: 'Create the stream' });
    await button.waitFor({ timeout: 40_000 });
    // The page learns of it with its next look at the list, seconds later.
    await service.create({
      name: 'raced',
      tick: 60,
      spec: { family: 'local', mechanism: 'lpu', epsilon: 1, window: 2, domain: 2, population: 9 },
    });
    const [answer] = await Promise.all([
      page.waitForResponse((one) => one.request().method() === 'POST' && one.url().endsWith('/v1/streams')),
      button.click(),
    ]);
    expect(answer.status()).toBe(412);
    await page.getByText('a stream of that name exists').waitFor();
    expect(await service.ask('operator', '/v1/streams/raced')).toMatchObject({ spec: { mechanism: 'lpu' } });
  });
});
