// A real service in a temporary folder: `tidegate init` and `tidegate serve`.

import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Declaration, Role } from '../src/api/types';

export const BINARY = process.env.TIDEGATE_BINARY ?? '../target/debug/tidegate';

async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        typeof address === 'object' && address ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}

export const sleep = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Waits until something holds, for so many seconds at most. */
export async function until(what: string, holds: () => Promise<boolean> | boolean, seconds = 20): Promise<void> {
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) {
    if (await holds()) return;
    await sleep(50);
  }
  throw new Error(`${what}: not within ${seconds} seconds`);
}

export class Service {
  private process: ChildProcess | null = null;
  private readonly children: ChildProcess[] = [];
  private log = '';

  private constructor(
    readonly folder: string,
    readonly url: string,
    readonly tokens: Record<Role, string>,
  ) {}

  /** Starts a service, with more lines of configuration. */
  static async start(more = ''): Promise<Service> {
    const folder = mkdtempSync(join(tmpdir(), 'tidegate-web-'));
    const place = join(folder, 'service');
    const made = JSON.parse(
      execFileSync(BINARY, ['init', place, '--json'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
    );
    const port = await freePort();
    const config = join(place, 'service.toml');
    const text = readFileSync(config, 'utf8');
    writeFileSync(config, text.replace(/^# listen = .*$/m, `listen = "127.0.0.1:${port}"\n${more}`));
    const service = new Service(folder, `http://127.0.0.1:${port}`, made.tokens);
    await service.serve();
    return service;
  }

  async serve(): Promise<void> {
    const config = join(this.folder, 'service', 'service.toml');
    const process = spawn(BINARY, ['serve', '--config', config], { stdio: ['ignore', 'pipe', 'pipe'] });
    process.stdout.on('data', (text) => (this.log += text));
    process.stderr.on('data', (text) => (this.log += text));
    this.process = process;
    await until('the service answers', async () => {
      if (process.exitCode !== null) throw new Error(`the service has ended:\n${this.log}`);
      return fetch(`${this.url}/readyz`).then(
        (answer) => answer.ok,
        () => false,
      );
    });
  }

  /** Ends the service as a crash does. */
  async kill(): Promise<void> {
    const process = this.process;
    if (!process || process.exitCode !== null) return;
    const ended = new Promise((resolve) => process.once('exit', resolve));
    process.kill('SIGKILL');
    await ended;
  }

  async stop(): Promise<void> {
    for (const child of this.children) child.kill();
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async ask<T = unknown>(role: Role, path: string, body?: unknown, type = 'application/json'): Promise<T> {
    const init: RequestInit = { headers: { authorization: `Bearer ${this.tokens[role]}`, 'content-type': type } };
    if (body !== undefined)
      Object.assign(init, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) });
    const text = await this.read(path, init);
    return (text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : text) as T;
  }

  /** The text of an answer, as an analyst gets it unless the request says otherwise. */
  async read(path: string, init: RequestInit = {}): Promise<string> {
    const answer = await fetch(`${this.url}${path}`, {
      headers: { authorization: `Bearer ${this.tokens.analyst}` },
      ...init,
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`);
    return text;
  }

  create(declaration: Declaration): Promise<unknown> {
    return this.ask('operator', '/v1/streams', declaration);
  }

  /** Declares a curated stream with a past of so many ticks, and sends it: for each tick, the events. */
  async past(declaration: Declaration, ticks: number, events: (tick: number) => unknown[]): Promise<void> {
    const epoch = (Math.floor(Date.now() / 1000 / declaration.tick) - ticks) * declaration.tick;
    await this.create({ ...declaration, epoch, backfill: true });
    for (let tick = 0; tick < ticks; tick++) {
      await this.history(declaration.name, tick, events(tick));
    }
  }

  /** Sends a tick again while the outcome is unknown, as the service asks for. */
  private async history(stream: string, tick: number, events: unknown[]): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      try {
        await this.ask('ingest', `/v1/streams/${stream}/history?timestamp=${tick}`, events);
        return;
      } catch (error) {
        if (String(error).includes(': 409 ')) return;
        if (attempt === 20 || !String(error).includes(': 503 ')) throw error;
        await sleep(100);
      }
    }
  }

  /** Simulated devices that answer a stream's questions. */
  fleet(stream: string, devices: number): void {
    const key = join(this.folder, 'service', 'operator.pub');
    const options = ['--server', this.url, '--stream', stream, '--operator-key', key, '--devices', String(devices)];
    const env = { ...process.env, TIDEGATE_TOKEN: this.tokens.ingest };
    this.children.push(spawn(BINARY, ['device', 'fleet', ...options], { stdio: 'ignore', env }));
  }
}

/** Numbers that are the same at each run. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Events of so many users, each with a value that is drawn by weights. */
export function crowd(
  draw: () => number,
  users: number,
  values: readonly (string | number)[],
  weights: readonly number[],
): unknown[] {
  const total = weights.reduce((one, other) => one + other, 0);
  return Array.from({ length: users }, (_, user) => {
    let rest = draw() * total;
    let place = 0;
    while (place < weights.length - 1 && (rest -= weights[place]!) > 0) place++;
    return { user: `u${user}`, value: values[place] };
  });
}
