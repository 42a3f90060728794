// Chromium with a page that tells everything that must not happen: requests to other hosts, errors, violations.

import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from 'playwright-core';
import { expect } from 'vitest';
import type { Role } from '../src/api/types';
import type { Service } from './service';

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--enable-precise-memory-info',
];
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const launch = (): Promise<Browser> =>
  chromium.launch({ executablePath: process.env.TIDEGATE_CHROMIUM ?? '/usr/bin/chromium', args: FLAGS });

export interface Watched {
  page: Page;
  faults: string[];
  requests: string[];
}

/** A page whose faults are collected. A broken connection is none: services are killed here. */
export async function watched(
  browser: Browser,
  service: Service,
  options: BrowserContextOptions = {},
): Promise<Watched> {
  const context = await browser.newContext({
    viewport: { width: 1360, height: 860 },
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    ...options,
  });
  if (process.env.TIDEGATE_PAGE) await replacePage(context, process.env.TIDEGATE_PAGE);
  const page = await context.newPage();
  page.setDefaultTimeout(8_000);
  const faults: string[] = [];
  const requests: string[] = [];
  page.on('request', (request) => {
    const address = request.url();
    requests.push(address);
    if (!address.startsWith(`${service.url}/`) && !address.startsWith('blob:') && !address.startsWith('data:')) {
      faults.push(`request to another host: ${address}`);
    }
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('console', (message) => {
    const text = message.text();
    if (message.type() === 'error' && !/ERR_CONNECTION|ERR_EMPTY|ERR_INCOMPLETE|status of (4\d\d|5\d\d)/.test(text))
      faults.push(`console: ${text}`);
    if (/Content Security Policy/i.test(text)) faults.push(`policy: ${text}`);
  });
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) =>
      console.error(`Content Security Policy: ${event.violatedDirective}`),
    );
  });
  return { page, faults, requests };
}

/** Shows the page of a folder instead of the binary's own, which takes minutes to build; headers stay the service's. */
async function replacePage(context: BrowserContext, folder: string): Promise<void> {
  await context.route(/\/(app\.js|app\.css|icon\.svg)?(#.*)?$/, async (route) => {
    const name = new URL(route.request().url()).pathname.slice(1) || 'index.html';
    const body = readFileSync(join(folder, name));
    // The test may have closed the page meanwhile, or killed the service.
    const response = await route.fetch().catch(() => null);
    await (response ? route.fulfill({ response, body }) : route.abort()).catch(() => undefined);
  });
}

/** Signs in by the fragment of the address. */
export async function signedIn(
  browser: Browser,
  service: Service,
  role: Role,
  options: BrowserContextOptions = {},
): Promise<Watched> {
  const made = await watched(browser, service, options);
  await made.page.goto(`${service.url}/#token=${service.tokens[role]}`);
  await made.page.getByRole('button', { name: 'Sign out' }).waitFor();
  return made;
}

export async function open(page: Page, address: string): Promise<void> {
  await page.evaluate((hash) => void (location.hash = hash), address);
}

/** Everything that axe-core finds wrong: contrast, names, roles, order of headings. */
export async function axe(page: Page, what: string): Promise<void> {
  // Its script is evaluated by the debugger, which the page's policy does not concern.
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const run = (
      globalThis as unknown as {
        axe: { run(context: Document, options: object): Promise<{ violations: Violation[] }> };
      }
    ).axe;
    interface Violation {
      id: string;
      help: string;
      nodes: { html: string; failureSummary?: string }[];
    }
    const { violations } = await run.run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
    });
    return violations.map(
      (one) =>
        `${one.id}: ${one.help}\n${one.nodes
          .slice(0, 3)
          .map((node) => `  ${node.html.slice(0, 200)}\n  ${node.failureSummary ?? ''}`)
          .join('\n')}`,
    );
  });
  expect(found, `${what}: axe-core`).toEqual([]);
}
