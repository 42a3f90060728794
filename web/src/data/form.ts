// The form of a new stream: what `tidegate new` asks, as a declaration.

import type { Declaration, NumberDomain, Spec } from '../api/types';

export type Row = 'user' | 'number' | 'symbol';

export interface Form {
  name: string;
  row: Row;
  trust: 'device' | 'curator';
  domain: string;
  low: string;
  high: string;
  resolution: string;
  protects: 'reading' | 'contributor';
  contributor: string;
  tick: string;
  unit: number;
  window: string;
  population: string;
  epsilon: string;
  neighbours: 'add_remove' | 'replace';
  retention: string;
  /** Whether only reports of enrolled devices count. */
  credentials: boolean;
}

export const EMPTY: Form = {
  name: '',
  row: 'user',
  trust: 'device',
  domain: '',
  low: '0',
  high: '',
  resolution: '1',
  protects: 'reading',
  contributor: '1',
  tick: '1',
  unit: 3600,
  window: '24',
  population: '',
  epsilon: '1',
  neighbours: 'add_remove',
  retention: '',
  credentials: false,
};

export const UNITS = [
  { seconds: 1, label: 'seconds', letter: 's' },
  { seconds: 60, label: 'minutes', letter: 'm' },
  { seconds: 3600, label: 'hours', letter: 'h' },
  { seconds: 86_400, label: 'days', letter: 'd' },
];

export const EXISTS = 'a stream of that name exists';

const MOST_TICK = 31_622_400;
const MOST_POPULATION = 2 ** 53;
const MOST_WINDOW = 1_000_000_000;
const MOST_VALUES = 16_777_216;
const MOST_EPSILON = 1000;

/** Seconds of a tick; of one unit while the answer is none. */
export const tickSeconds = (form: Form): number => (isCount(form.tick) ? Number(form.tick) : 1) * form.unit;

/** Streams of devices: their reports may need credentials. */
export const isOfDevices = (form: Form): boolean => ['local', 'sequence'].includes(familyOf(form));

/** Names, divided by commas or lines, or a number of numbered values. */
export function parseDomain(text: string): string[] | number | null {
  const trimmed = text.trim();
  if (/^\d+$/.test(trimmed)) return Number(trimmed) >= 1 ? Number(trimmed) : null;
  const names = trimmed
    .split(/[,\n]/)
    .map((name) => name.trim())
    .filter(Boolean);
  return names.length ? names : null;
}

const isPositive = (text: string): boolean => /^(\d+(\.\d*)?|\.\d+)$/.test(text.trim()) && Number(text) > 0;
const isCount = (text: string, most = Infinity): boolean =>
  /^\d+$/.test(text.trim()) && Number(text) >= 1 && Number(text) <= most;
const isNumber = (text: string): boolean => /^[+-]?(\d+(\.\d*)?|\.\d+)$/.test(text.trim());

export type Faults = Partial<Record<keyof Form, string>>;

/** What is wrong, by field. Names that streams have already are taken: their streams would be changed. */
export function faultsOf(form: Form, taken: ReadonlySet<string> = new Set()): Faults {
  const faults: Faults = {};
  if (!/^[a-z0-9_-]{1,64}$/.test(form.name)) faults.name = '1 to 64 small letters, digits, _ and -';
  else if (taken.has(form.name)) faults.name = EXISTS;
  if (!isPositive(form.epsilon) || Number(form.epsilon) > MOST_EPSILON)
    faults.epsilon = 'digits, such as 0.5; above 0, at most 1000';
  if (!isCount(form.tick)) faults.tick = 'a whole number, 1 or more';
  else if (tickSeconds(form) > MOST_TICK) faults.tick = 'at most 366 days';
  if (form.row === 'number') {
    if (!isNumber(form.low)) faults.low = 'digits, such as -0.5';
    if (!isNumber(form.high) || Number(form.high) <= Number(form.low)) faults.high = 'a number above the lowest';
    if (!isPositive(form.resolution)) faults.resolution = 'digits, such as 0.5; above 0';
    if (form.protects === 'contributor' && !isPositive(form.contributor))
      faults.contributor = 'digits, such as 0.5; above 0';
  } else {
    const domain = parseDomain(form.domain);
    if (domain === null) faults.domain = 'names, divided by commas, or how many values there are';
    else if (Array.isArray(domain) && new Set(domain).size < domain.length) faults.domain = 'each name once';
    else {
      const size = Array.isArray(domain) ? domain.length : domain;
      if (size < 2 || size > MOST_VALUES) faults.domain = '2 to 16,777,216 values';
    }
    if (!isCount(form.population, MOST_POPULATION))
      faults.population = 'digits only: a whole number from 1 to 9,007,199,254,740,992';
    if (form.row === 'user' && !isCount(form.window, MOST_WINDOW))
      faults.window = 'digits only: a whole number from 1 to 1,000,000,000';
  }
  if (form.retention.trim() && !/^[1-9]\d*[smhdw]$/.test(form.retention.trim()))
    faults.retention = 'such as 90d, or nothing';
  return faults;
}

type Draft = Omit<Declaration, 'spec'> & { spec: Omit<Spec, 'mechanism'> & { mechanism?: string } };

/** The declaration; without a mechanism, the recommended one is meant. */
export function draftOf(form: Form, mechanism: string | null): Draft {
  const unit = UNITS.find(({ seconds }) => seconds === form.unit) ?? UNITS[0]!;
  const epsilon = form.epsilon.trim();
  const spec: Draft['spec'] = {
    family: familyOf(form),
    ...(mechanism === null ? {} : { mechanism }),
    epsilon: Number(epsilon),
  };
  if (form.row === 'number') {
    const domain: NumberDomain = { low: Number(form.low), high: Number(form.high) };
    if (Number(form.resolution) !== 1) domain.resolution = Number(form.resolution);
    spec.domain = domain;
    spec.protects = form.protects === 'reading' ? 'reading' : { contributor: Number(form.contributor) };
  } else {
    spec.domain = parseDomain(form.domain) ?? 2;
    if (form.row === 'user') spec.window = Number(form.window);
    if (form.trust === 'device' || form.row === 'symbol') spec.population = Number(form.population);
    if (spec.family === 'central' && form.neighbours === 'replace') spec.neighbours = 'replace';
  }
  spec.every = `${Number(form.tick)}${unit.letter}`;
  const draft: Draft = { name: form.name, tick: tickSeconds(form), spec };
  if (form.credentials && isOfDevices(form)) draft.credentials = true;
  if (form.retention.trim()) draft.retention = { age: form.retention.trim() };
  return draft;
}

export function familyOf(form: Form): Spec['family'] {
  if (form.row === 'number') return 'scalar';
  if (form.row === 'symbol') return 'sequence';
  return form.trust === 'device' ? 'local' : 'central';
}
