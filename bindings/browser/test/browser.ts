// Chromium with a profile on the disk, as people have it: pages that are closed and opened again find their storage.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type BrowserContext, type CDPSession, type Page } from 'playwright-core';

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Hundreds of pages, none of which is in front; and they share processes although each has an origin of its own.
  '--disable-background-timer-throttling',
  '--disable-backgrounding-occluded-windows',
  '--disable-renderer-backgrounding',
  '--disable-site-isolation-trials',
  '--disable-features=IsolateOrigins,site-per-process,LocalNetworkAccessChecks',
  '--renderer-process-limit=6',
];

export class Browser {
  private constructor(
    readonly context: BrowserContext,
    private readonly folder: string,
  ) {}

  static async start(): Promise<Browser> {
    const folder = mkdtempSync(join(tmpdir(), 'tidegate-pages-'));
    const executablePath = process.env.TIDEGATE_CHROMIUM ?? '/usr/bin/chromium';
    const context = await chromium.launchPersistentContext(folder, { executablePath, args: FLAGS });
    return new Browser(context, folder);
  }

  async page(address: string): Promise<Page> {
    const page = await this.context.newPage();
    await page.goto(address);
    return page;
  }

  async stop(): Promise<void> {
    await this.context.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Deletes everything that pages of an origin have stored, as a visitor can. */
export async function wipe(page: Page, origin: string): Promise<void> {
  const session = await page.context().newCDPSession(page);
  await session.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' });
  await session.detach();
}

const sessions = new WeakMap<Page, CDPSession>();

/** Takes the network from a page, and gives it back: in one session, since each session has an emulation of its own. */
export async function offline(page: Page, isOffline: boolean): Promise<void> {
  const session = sessions.get(page) ?? (await page.context().newCDPSession(page));
  sessions.set(page, session);
  const unlimited = { latency: 0, downloadThroughput: -1, uploadThroughput: -1 };
  await session.send('Network.emulateNetworkConditions', { offline: isOffline, ...unlimited });
}
