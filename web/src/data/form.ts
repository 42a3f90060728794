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
  tick: number;
  unit: number;
  window: string;
  population: string;
  epsilon: string;
  neighbours: 'add_remove' | 'replace';
  retention: string;
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
  tick: 1,
  unit: 3600,
  window: '24',
  population: '',
  epsilon: '1',
  neighbours: 'add_remove',
  retention: '',
};

export const UNITS = [
  { seconds: 1, label: 'seconds', letter: 's' },
  { seconds: 60, label: 'minutes', letter: 'm' },
  { seconds: 3600, label: 'hours', letter: 'h' },
  { seconds: 86_400, label: 'days', letter: 'd' },
];

export const tickSeconds = (form: Form): number => Math.max(Math.round(form.tick), 1) * form.unit;

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

const isPositive = (text: string): boolean => /^\d+(\.\d+)?$/.test(text.trim()) && Number(text) > 0;
const isCount = (text: string): boolean => /^\d+$/.test(text.trim()) && Number(text) >= 1;
const isNumber = (text: string): boolean => /^[+-]?\d+(\.\d+)?$/.test(text.trim());

/** What is wrong, by field. */
export function faultsOf(form: Form): Partial<Record<keyof Form, string>> {
  const faults: Partial<Record<keyof Form, string>> = {};
  if (!/^[a-z0-9_-]{1,64}$/.test(form.name)) faults.name = 'up to 64 small letters, digits, _ and -';
  if (!isPositive(form.epsilon)) faults.epsilon = 'a number above zero; 1 is usual, less is more private';
  if (form.row === 'number') {
    if (!isNumber(form.low)) faults.low = 'a number';
    if (!isNumber(form.high) || Number(form.high) <= Number(form.low)) faults.high = 'a number above the lowest';
    if (!isPositive(form.resolution)) faults.resolution = 'a number above zero';
    if (form.protects === 'contributor' && !isPositive(form.contributor)) faults.contributor = 'a number above zero';
  } else {
    const domain = parseDomain(form.domain);
    if (domain === null) faults.domain = 'names, divided by commas, or how many values there are';
    else if (Array.isArray(domain) && new Set(domain).size < domain.length) faults.domain = 'each name once';
    else if ((Array.isArray(domain) ? domain.length : domain) < 2) faults.domain = 'at least two values';
    if (!isCount(form.population)) faults.population = 'a whole number: about how many there are';
    if (form.row === 'user' && !isCount(form.window)) faults.window = 'a whole number of ticks';
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
  spec.every = `${Math.max(Math.round(form.tick), 1)}${unit.letter}`;
  const draft: Draft = { name: form.name, tick: tickSeconds(form), spec };
  if (form.retention.trim()) draft.retention = { age: form.retention.trim() };
  return draft;
}

export function familyOf(form: Form): Spec['family'] {
  if (form.row === 'number') return 'scalar';
  if (form.row === 'symbol') return 'sequence';
  return form.trust === 'device' ? 'local' : 'central';
}
