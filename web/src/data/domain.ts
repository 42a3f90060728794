import type { NumberDomain, Spec, Value } from '../api/types';

/** Names of the values, as the service names them. */
export function namesOf(spec: Pick<Spec, 'domain'>): string[] {
  const { domain } = spec;
  if (Array.isArray(domain)) return domain;
  return typeof domain === 'number' ? Array.from({ length: domain }, (_, value) => String(value)) : [];
}

export function isNumbers(domain: Spec['domain']): domain is NumberDomain {
  return typeof domain === 'object' && !Array.isArray(domain);
}

/** A value as a query names it: by name, or by number where values are numbered. */
export function valueOf(spec: Pick<Spec, 'domain'>, index: number): Value {
  return Array.isArray(spec.domain) ? (spec.domain[index] ?? index) : index;
}

export function indexOf(spec: Pick<Spec, 'domain'>, value: Value | undefined): number {
  if (value === undefined) return -1;
  return Array.isArray(spec.domain) ? spec.domain.indexOf(String(value)) : Number(value);
}
