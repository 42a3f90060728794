// What lies between pages and the service: it notes every report that leaves a page, loses some answers on purpose, and
// serves the pages, each device from an origin of its own.

import { readFileSync } from 'node:fs';
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.wasm': 'application/wasm',
};

/** A request with reports, as it left a page. */
export interface Sent {
  device: string;
  body: Buffer;
  /** Whether the service has answered 200, and so has the report on its disk. */
  isTaken: boolean;
}

/** The one report of a batch, read without the package. */
export interface Report {
  timestamp: number;
  phase: number;
  id: string;
  bytes: Buffer;
}

export function reportOf(batch: Buffer): Report {
  if (batch.toString('latin1', 0, 4) !== 'TGB1' || batch.readUInt32LE(36) !== 1) throw new Error('one report of TGB1');
  const length = batch.readUInt32LE(32);
  if (batch.length !== 56 + length) throw new Error('another length');
  return {
    timestamp: Number(batch.readBigUInt64LE(20)),
    phase: batch.readUInt16LE(28),
    id: batch.toString('hex', 40, 56),
    bytes: batch.subarray(56),
  };
}

/** The name of a device in its origin, such as `http://d17.localhost:8080`. */
const deviceOf = (origin: string | undefined): string =>
  /^http:\/\/([a-z0-9]+)\.localhost/.exec(origin ?? '')?.[1] ?? '';

export class Gate {
  readonly sent: Sent[] = [];
  /** Epsilon of each question that was asked, by timestamp and phase. */
  readonly asked = new Map<string, string>();
  /** The share of answers to reports that are lost. */
  losing = 0;
  readonly #servers: Server[] = [];
  #pages = 0;
  #service = 0;

  private constructor(
    readonly target: string,
    readonly draw: () => number,
  ) {}

  static async start(target: string, draw: () => number): Promise<Gate> {
    const gate = new Gate(target, draw);
    gate.#service = await gate.#listen((incoming, answer) => gate.#forward(incoming, answer));
    gate.#pages = await gate.#listen((incoming, answer) => gate.#page(incoming, answer));
    return gate;
  }

  /** The address that pages know as the service's. */
  get url(): string {
    return `http://127.0.0.1:${this.#service}`;
  }

  /** The origin of a device's pages. */
  origin(device: string): string {
    return `http://${device}.localhost:${this.#pages}`;
  }

  stop(): void {
    for (const server of this.#servers) {
      server.close();
      server.closeAllConnections();
    }
  }

  async #listen(handler: (incoming: IncomingMessage, answer: ServerResponse) => void): Promise<number> {
    const server = createServer(handler);
    this.#servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return (server.address() as AddressInfo).port;
  }

  #page(incoming: IncomingMessage, answer: ServerResponse): void {
    const path = new URL(incoming.url ?? '/', 'http://x').pathname;
    const file = path === '/' ? 'test/page.html' : path.slice(1);
    try {
      if (!/^(dist|test|vectors)\/[a-z_]+\.(js|wasm|html)$/.test(file)) throw new Error('no such file');
      const folder = file.startsWith('vectors/') ? (process.env.TIDEGATE_VECTORS ?? '') : ROOT;
      const body = readFileSync(join(folder, file.replace(/^vectors\//, '')));
      answer.writeHead(200, { 'content-type': TYPES[extname(file)] }).end(body);
    } catch {
      answer.writeHead(404).end();
    }
  }

  #forward(incoming: IncomingMessage, answer: ServerResponse): void {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      const body = Buffer.concat(chunks);
      const isReport = incoming.method === 'POST' && (incoming.url ?? '').endsWith('/reports');
      const noted: Sent = { device: deviceOf(incoming.headers.origin), body, isTaken: false };
      if (isReport) this.sent.push(noted);
      const isLost = isReport && this.draw() < this.losing;
      const onward = request(this.target + (incoming.url ?? ''), {
        method: incoming.method,
        headers: incoming.headers,
      });
      onward.on('error', () => answer.destroy());
      answer.on('close', () => onward.destroy());
      onward.on('response', (response) => {
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => parts.push(part));
        response.on('end', () => {
          const text = Buffer.concat(parts);
          if (response.statusCode === 200) this.#note(incoming.url ?? '', text, noted);
          if (isLost) return void answer.destroy();
          answer.writeHead(response.statusCode ?? 502, response.headers).end(text);
        });
      });
      onward.end(body);
    });
  }

  #note(url: string, text: Buffer, noted: Sent): void {
    noted.isTaken = true;
    if (!url.includes('/questions')) return;
    const { questions } = JSON.parse(text.toString()) as {
      questions: { question: { timestamp: number; phase: number; epsilon: string } }[];
    };
    for (const { question } of questions) this.asked.set(`${question.timestamp}/${question.phase}`, question.epsilon);
  }
}

/** Epsilon in billionths, exactly. */
export function billionths(epsilon: string): bigint {
  const [whole, rest = ''] = epsilon.split('.');
  return BigInt(whole!) * 1_000_000_000n + BigInt(rest.slice(0, 9).padEnd(9, '0'));
}

/**
 * Adds up what left each device, without the package: no window may exceed the budget, and no phase may have two
 * different reports. Returns the reports of each device, by timestamp and phase.
 */
export function audited(gate: Gate, window: number, budget: string): Map<string, Map<string, Report>> {
  const devices = new Map<string, Map<string, Report>>();
  for (const { device, body } of gate.sent) {
    const report = reportOf(body);
    const name = `${report.timestamp}/${report.phase}`;
    const reports = devices.get(device) ?? new Map<string, Report>();
    devices.set(device, reports);
    const before = reports.get(name);
    if (before && (before.id !== report.id || !before.bytes.equals(report.bytes)))
      throw new Error(`${device} has sent two reports of ${name}`);
    reports.set(name, report);
  }
  const most = billionths(budget);
  for (const [device, reports] of devices) {
    const timestamps = [...reports.values()].map((report) => report.timestamp);
    for (const end of timestamps) {
      let spent = 0n;
      for (const [name, { timestamp }] of reports) {
        if (timestamp > end - window && timestamp <= end) spent += billionths(gate.asked.get(name) ?? 'unknown');
      }
      if (spent > most) throw new Error(`${device} has spent ${spent} billionths in the window that ends at ${end}`);
    }
  }
  return devices;
}
