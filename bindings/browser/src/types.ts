/** A question of the service. A device trusts none of it. */
export interface Question {
  timestamp: number;
  phase: number;
  cohort: 'everyone' | { slots: { first: number; count: number } };
  epsilon: string;
  oracle: string;
  domain: number;
  view: unknown;
}

/** A question that is open, and until when, in milliseconds since 1970. */
export interface OpenQuestion {
  question: Question;
  report_length: number;
  closes: number;
}

/** The open questions of a stream. */
export interface OpenQuestions {
  stream: string;
  round: number;
  questions: OpenQuestion[];
}

/** What the service says of a batch of reports. */
export interface Receipt {
  accepted: number;
  repeated: number;
  conflicting: number;
  implausible: number;
  wrong_token?: number;
}

/** The guarantee of a stream to its devices, as its operator has signed it. */
export interface Policy {
  stream: string;
  protects: { epsilon: string; window: unknown; domain: number };
  oracle: string | null;
  ticks: { epoch: number; seconds: number };
  slot_key: number[];
  sequence?: unknown;
  issuer?: number[];
}

/** What the owner is asked to consent to. */
export interface Offer {
  /** `new` for data that were under no policy here; `change` for data under another one, or under other clocks. */
  kind: 'new' | 'change';
  /** SHA-256 of all that is signed: consent to one policy is consent to no other. */
  fingerprint: string;
  policy: Policy;
  /** What is believed of the time while the page is closed, and what a lying clock could gain; null for nothing. */
  clock: string | null;
  /** What is different, for a change. */
  difference: string | null;
}

/**
 * Which clocks count while the page is closed: `signed_time`, the computer's and the service's signed time, whichever
 * says less; `wall_clock`, the computer's alone; `strict`, none, so that every page load waits for a whole window.
 */
export type TrustedClock = 'signed_time' | 'wall_clock' | 'strict';

export interface DeviceOptions {
  /** The service's address, such as `https://collector.example`. */
  server: string;
  stream: string;
  /** Name of the data's source: lower-case letters, digits, _ and -. Its budget is kept under this name. */
  source: string;
  /** Public key of the operator whom the owner trusts: 64 hexadecimal digits. Build it in; never ask the service. */
  operatorKey: string;
  /** Asks the owner. Without consent nothing is enrolled. */
  consent: (offer: Offer) => boolean | Promise<boolean>;
  /** `signed_time` unless stated otherwise. */
  clock?: TrustedClock;
  /** Days for which the owner's consent to `clock` lasts: 365 unless stated otherwise. */
  days?: number;
  /** Token of the role `ingest`. Everybody who has the page has it. */
  token?: string;
  /** Credential of this device, as JSON, where the stream needs one. */
  credential?: string;
  /** Attempts of a request: 6 unless stated otherwise. */
  attempts?: number;
  /** Milliseconds of an attempt: 30,000 unless stated otherwise. */
  timeout?: number;
}

/** A value of the domain by its number from 0 on; undefined for none: the device then spends, and is silent. */
export type Value = number | undefined;

/** How a question was answered. */
export type Answer = { kind: 'report'; batch: Uint8Array } | { kind: 'refused'; reason: string } | { kind: 'silent' };

/** How a question was answered, and what the service said of the report. */
export type Outcome = { question: Question } & (
  | { kind: 'sent'; receipt: Receipt }
  | { kind: 'refused'; reason: string }
  | { kind: 'silent' }
  | { kind: 'unsent'; problem: string }
);

/** What was spent in the window that ends now. */
export interface Spent {
  /** Null before the stream's beginning. */
  timestamp: number | null;
  spent: string;
  budget: string;
}

/** An error of the package; `code` is for programs. Nothing of it may be sent to the service. */
export class DeviceError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = 'DeviceError';
    this.code = code;
  }

  /** The error in a text `code: message`, as the device throws it. */
  static of(thrown: unknown): DeviceError {
    if (thrown instanceof DeviceError) return thrown;
    const text = thrown instanceof Error ? thrown.message : String(thrown);
    const parts = /^([a-z_]+): ([^]*)$/.exec(typeof thrown === 'string' ? thrown : '');
    return parts ? new DeviceError(parts[1]!, parts[2]!) : new DeviceError('failed', text);
  }
}
