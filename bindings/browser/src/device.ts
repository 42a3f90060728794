import { Collector, backOff, pause } from './collector.js';
import { read, replace, type Row } from './store.js';
import init, { PageDevice, offerOf, type PageSave } from './tidegate.js';
import {
  DeviceError,
  type Answer,
  type DeviceOptions,
  type Offer,
  type OpenQuestion,
  type Outcome,
  type Policy,
  type Question,
  type Spent,
  type Value,
} from './types.js';

/** Seconds that the service may wait for another round. */
const WAIT = 20;
/** The number that no domain has: the device spends as for a value, and is silent. */
const NONE = 0xffff_ffff;
/** Timestamps of a draw of tokens. */
const BLOCK = 16;

let loaded: Promise<unknown> | undefined;

function load(): Promise<unknown> {
  // In this form bundlers take the file along.
  loaded ??= init({ module_or_path: new URL('./tidegate_bg.wasm', import.meta.url) });
  loaded.catch(() => (loaded = undefined));
  return loaded;
}

/** Seconds of the computer's clock and of the page's. */
const clocks = (): [wall: number, steady: number] => [Date.now() / 1000, performance.now() / 1000];

interface Reply {
  kind: string;
  reason?: string;
  block?: number;
  request?: unknown;
  batch?: Uint8Array;
}

/** What `run` tells. */
export interface Watcher {
  /** Ends it. */
  signal?: AbortSignal;
  onOutcome?: (outcome: Outcome) => void;
  /** What went wrong, before it tries again. */
  onError?: (error: DeviceError) => void;
}

/**
 * A source of data in this browser, with its budget. All tabs of an origin that open the same source are one device: a
 * Web Lock lets one of them answer at a time, and each continues from the state that the others have saved.
 */
export class Device {
  readonly #core: PageDevice;
  readonly #collector: Collector;
  readonly #options: DeviceOptions;
  readonly #signed: string;
  readonly #offer: Omit<Offer, 'kind' | 'difference'>;
  #terms: string;
  /** Version of the stored state that the open device continues from. */
  #version: string | undefined;
  #isClosed = false;

  private constructor(options: DeviceOptions, collector: Collector, signed: string, terms: string) {
    this.#core = new PageDevice();
    this.#options = { ...options };
    this.#collector = collector;
    this.#signed = signed;
    this.#terms = terms;
    this.#offer = JSON.parse(offerOf(signed, options.operatorKey, terms, Date.now() / 1000)) as Omit<
      Offer,
      'kind' | 'difference'
    >;
  }

  /**
   * Opens the device of a source, and enrols it if the owner consents.
   *
   * Errors: `declined` without consent; `policy` if the operator has not signed the policy; `unavailable`,
   * `refused_by_service`, `store`, `argument`.
   */
  static async open(options: DeviceOptions): Promise<Device> {
    if (!('locks' in navigator))
      throw new DeviceError('unsupported', 'Web Locks are missing: open the page by https, in a browser of 2024');
    const { attempts = 6, timeout = 30_000, clock = 'signed_time', days = 365 } = options;
    const collector = new Collector(options.server, options.token, attempts, timeout);
    const [, signed, row] = await Promise.all([load(), collector.policy(options.stream), read(options.source)]);
    const now = Math.floor(Date.now() / 1000);
    // Consent that has ended is asked for again.
    const terms = row && !isOver(row.terms, now) ? row.terms : termsOf(clock, options.operatorKey, now + days * 86_400);
    try {
      const device = new Device(options, collector, signed, terms);
      if (device.policy.stream !== options.stream)
        throw new DeviceError('policy', 'the service has answered with the policy of another stream');
      await device.#enrol(row);
      return device;
    } catch (error) {
      throw DeviceError.of(error);
    }
  }

  async #enrol(row: Row | undefined): Promise<void> {
    if (!row) {
      await this.#ask('new', null);
      return this.#locked(() => this.#reopen(false));
    }
    let difference = 'the consent about the time while the page is closed has ended';
    if (row.terms === this.#terms) {
      try {
        return await this.#locked(() => this.#reopen(false));
      } catch (error) {
        const found = DeviceError.of(error);
        if (found.code !== 'other_policy') throw found;
        difference = found.message;
      }
    }
    await this.#ask('change', difference);
    await this.#locked(() => this.#reopen(true));
  }

  async #ask(kind: Offer['kind'], difference: string | null): Promise<void> {
    const offer = structuredClone({ ...this.#offer, kind, difference });
    if ((await this.#options.consent(offer)) !== true)
      throw new DeviceError('declined', 'the owner has not consented, so nothing was enrolled');
  }

  /** The policy that the device was enrolled with. */
  get policy(): Policy {
    return structuredClone(this.#offer.policy);
  }

  /** Identifies the policy. */
  get fingerprint(): string {
    return this.#offer.fingerprint;
  }

  /** What is believed of the time while the page is closed; null for nothing. */
  get clock(): string | null {
    return this.#offer.clock;
  }

  /** What was spent in the window that ends now. */
  spent(): Promise<Spent> {
    return this.#locked(async () => {
      await this.#current();
      return JSON.parse(this.#core.spent(...clocks())) as Spent;
    });
  }

  /** Notes the value of a timestamp, in memory, for streams whose releases take several. Other streams ignore it. */
  note(timestamp: number, value: number): Promise<void> {
    return this.#locked(async () => {
      await this.#current();
      this.#core.gather(BigInt(timestamp), value, ...clocks());
    });
  }

  /** The names of the values of the domain, in their order; null where values are numbered. */
  values(): Promise<string[] | null> {
    return this.#collector.values(this.#options.stream);
  }

  /**
   * Answers a question within the budget. The answer is on the disk before it is returned; the same question gets the
   * same answer.
   */
  answer(question: Question, value: Value): Promise<Answer> {
    return this.#locked(() => this.#answer(JSON.stringify(question), value));
  }

  async #answer(question: string, value: Value): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#current();
        const answered = await this.#try(question, value);
        if (answered.kind !== 'refused' || attempt === 3) return answered;
        if (answered.reason === 'no_time') await this.#tellTime();
        else if (answered.reason === 'no_token') await this.#draw(false);
        else return answered;
      } catch (error) {
        // The storage was cleared between two transactions: on from what is there now.
        if (DeviceError.of(error).code !== 'replaced' || attempt === 3) throw error;
      }
    }
  }

  async #try(question: string, value: Value): Promise<Answer> {
    try {
      const reply = await this.#step(() => this.#core.answer(question, value ?? NONE, ...clocks()));
      if (reply.batch) return { kind: 'report', batch: reply.batch };
      return { kind: 'refused', reason: reply.reason ?? 'unknown' };
    } catch (error) {
      const found = DeviceError.of(error);
      if (found.code === 'value' && value === undefined) return { kind: 'silent' };
      throw found;
    }
  }

  /** Asks the service for its signed time, without which nothing is believed of the time before this page load. */
  async #tellTime(): Promise<void> {
    const request = this.#core.askTime(...clocks());
    if (request === '') return;
    const { nonce } = JSON.parse(request) as { nonce: string };
    const time = await this.#collector.time(nonce);
    this.#core.attest(time, ...clocks());
  }

  /** Draws the tokens of the present block, or of the next. */
  async #draw(ahead: boolean): Promise<void> {
    const reply = await this.#step(() => this.#core.draw(ahead, ...clocks()));
    if (reply.kind !== 'draw') return;
    const answer = await this.#collector.draw(this.#options.stream, JSON.stringify(reply.request));
    await this.#step(() => this.#core.drawn(BigInt(reply.block!), answer));
  }

  /** Answers the open questions once, and sends the reports. For a Service Worker, or a page that stays briefly. */
  async report(value: Value, signal?: AbortSignal): Promise<Outcome[]> {
    const open = await this.#collector.questions(this.#options.stream, undefined, 0, signal);
    const outcomes: Outcome[] = [];
    for (const asked of open.questions) outcomes.push(await this.#settle(asked, value, signal));
    return outcomes;
  }

  async #settle({ question, closes }: OpenQuestion, value: Value, signal?: AbortSignal): Promise<Outcome> {
    const answer = await this.answer(question, value);
    if (answer.kind !== 'report') return { question, ...answer };
    try {
      const receipt = await this.#collector.send(this.#options.stream, answer.batch, closes, signal);
      return { question, kind: 'sent', receipt };
    } catch (error) {
      signal?.throwIfAborted();
      return { question, kind: 'unsent', problem: DeviceError.of(error).message };
    }
  }

  /**
   * Answers questions until the signal ends it: a service that is away is tried again after pauses that grow. Of
   * several tabs one runs, and another goes on when it is closed. `value` gives the value at a question.
   */
  async run(value: (question: Question) => Value | Promise<Value>, watcher: Watcher = {}): Promise<void> {
    const { signal } = watcher;
    await navigator.locks
      .request(`tidegate/${this.#options.source}/run`, signal ? { signal } : {}, async () => {
        let round: number | undefined;
        let failures = 0;
        const settled = new Set<string>();
        const ahead = new Ahead(this.policy);
        while (!signal?.aborted && !this.#isClosed) {
          try {
            const open = await this.#collector.questions(this.#options.stream, round, WAIT, signal);
            let isUnsent = false;
            for (const asked of open.questions) {
              const { timestamp, phase } = asked.question;
              const name = `${timestamp}/${phase}`;
              if (settled.has(name)) continue;
              const outcome = await this.#settle(asked, await value(asked.question), signal);
              watcher.onOutcome?.(outcome);
              // The same bytes may be sent while the question is open.
              if (outcome.kind === 'unsent' && Date.now() < asked.closes) isUnsent = true;
              else settled.add(name);
            }
            for (const name of [...settled].slice(0, -1000)) settled.delete(name);
            if (ahead.isDue()) await this.#locked(() => this.#current().then(() => this.#draw(true)));
            round = isUnsent ? undefined : open.round;
            failures = isUnsent ? failures + 1 : 0;
            if (isUnsent) await pause(backOff(failures), signal);
          } catch (error) {
            if (signal?.aborted || this.#isClosed) return;
            const found = DeviceError.of(error);
            if (found.code === 'refused_by_service' || found.code === 'argument' || found.code === 'policy')
              throw found;
            watcher.onError?.(found);
            round = undefined;
            failures++;
            await pause(backOff(failures), signal).catch(() => undefined);
          }
        }
      })
      .catch((error: unknown) => {
        if (!signal?.aborted) throw DeviceError.of(error);
      });
  }

  /** Closes the device. Another one can open its source at any time. */
  close(): void {
    this.#isClosed = true;
    this.#version = undefined;
    this.#core.close();
  }

  /** Runs a step while no other tab does. */
  async #locked<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new DeviceError('closed', 'the device is closed');
    const name = `tidegate/${this.#options.source}`;
    // A rejected promise of the lock's own would lose the error's class.
    const done = await navigator.locks.request(name, async () => {
      try {
        return { result: await work() };
      } catch (error) {
        return { error: DeviceError.of(error) };
      }
    });
    if ('error' in done) throw done.error;
    return done.result;
  }

  /** Continues from what is stored, which another tab may have replaced. */
  async #current(): Promise<void> {
    const row = await read(this.#options.source);
    if (this.#version === undefined || row?.version !== this.#version) await this.#reopen(false, row);
  }

  async #reopen(consents: boolean, found?: Row): Promise<void> {
    const { source, operatorKey, credential } = this.#options;
    const row = found ?? (await read(source));
    // The owner's consent that is stored counts, which another tab may have got.
    if (row && !consents) this.#terms = row.terms;
    await this.#step(() =>
      this.#core.open(row?.contents, source, this.#signed, operatorKey, this.#terms, consents, ...clocks()),
    );
    if (credential !== undefined) this.#core.useCredential(credential);
  }

  /** Takes a step, and saves what it has changed before anybody sees its reply. */
  async #step(step: () => PageSave | undefined): Promise<Reply> {
    const save = step();
    if (save) {
      const { contents, version, replaces } = save;
      save.free();
      this.#version = undefined;
      const stored = await replace(this.#options.source, { contents, version, terms: this.#terms }, replaces);
      try {
        this.#core.confirm(stored);
      } catch (error) {
        // Any other error is the reply of a step that was saved.
        if (DeviceError.of(error).code === 'not_saved') throw error;
        this.#version = version;
        throw error;
      }
      this.#version = version;
    }
    const reply = JSON.parse(this.#core.takeText()) as Reply;
    const batch = this.#core.takeBatch();
    return batch ? { ...reply, batch } : reply;
  }
}

const isOver = (terms: string, now: number): boolean =>
  terms !== '' && (JSON.parse(terms) as { until: number }).until <= now;

function termsOf(clock: string, key: string, until: number): string {
  if (clock === 'strict') return '';
  const bytes = Array.from({ length: 32 }, (_, at) => parseInt(key.slice(2 * at, 2 * at + 2), 16));
  return JSON.stringify({ trusts: clock === 'wall_clock' ? 'wall_clock' : { signed_time: { key: bytes } }, until });
}

/** When to draw the next tokens: at a random moment of the present block, which no question decides. */
class Ahead {
  readonly #policy: Policy;
  #block = -1;
  #moment = 0;

  constructor(policy: Policy) {
    this.#policy = policy;
  }

  isDue(): boolean {
    if (!this.#policy.issuer) return false;
    const length = this.#policy.ticks.seconds * BLOCK * 1000;
    const since = Date.now() - this.#policy.ticks.epoch * 1000;
    const block = Math.floor(since / length);
    if (block !== this.#block) {
      this.#block = block;
      this.#moment = since + Math.random() * ((block + 1) * length - since);
    }
    if (since < this.#moment) return false;
    this.#moment = Infinity;
    return true;
  }
}
