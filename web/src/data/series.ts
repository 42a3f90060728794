// Releases of a stream as columns of numbers: a day of 1,440 releases of 50 values is 72,000 numbers twice.

import type { Freshness, ReleaseRecord, Spent, Statistic, Stream } from '../api/types';
import type { Unit } from '../api/types';

export type Shape = 'shares' | 'counts' | 'number' | 'tree';

const FRESHNESS: Freshness[] = ['fresh', 'approximated', 'nullified'];

/** The standard normal quantile of a two-sided interval. */
export const CONFIDENCES = { 0.8: 1.2815515655, 0.95: 1.9599639845, 0.99: 2.5758293035 } as const;
export type Confidence = keyof typeof CONFIDENCES;

export interface Numbered {
  shape: Shape;
  values: number[];
  variances: (number | null)[];
  /** Number of leaves of a tree; they are the last numbers. */
  leaves: number;
}

/** Numbers of a statistic with their variances, in the order of the domain; a tree's nodes level by level. */
export function numbersOf(statistic: Statistic): Numbered {
  if ('histogram' in statistic) {
    const { frequencies, variances } = statistic.histogram;
    return { shape: 'shares', values: frequencies, variances, leaves: frequencies.length };
  }
  if ('counts' in statistic) {
    const { counts, variances } = statistic.counts;
    return { shape: 'counts', values: counts, variances, leaves: counts.length };
  }
  if ('number' in statistic) {
    const { value, variance } = statistic.number;
    return { shape: 'number', values: [value], variances: [variance], leaves: 1 };
  }
  const { shape, frequencies, variances } = statistic.tree;
  return { shape: 'tree', values: frequencies, variances, leaves: shape };
}

/** Half the width of an interval; null where the error is not stated. */
export function halfWidth(variance: number | null, confidence: Confidence): number | null {
  return variance === null ? null : CONFIDENCES[confidence] * Math.sqrt(Math.max(variance, 0));
}

/** An interval that ends where the truth can lie: shares at 0 and 1, counts at 0. */
export function interval(
  value: number,
  variance: number | null,
  confidence: Confidence,
  shape: Shape,
): [number, number] | null {
  const half = halfWidth(variance, confidence);
  if (half === null) return null;
  const low = shape === 'number' ? -Infinity : 0;
  const high = shape === 'shares' || shape === 'tree' ? 1 : Infinity;
  return [Math.min(Math.max(value - half, low), high), Math.max(Math.min(value + half, high), low)];
}

/** What a release cost the person who spent most. */
export function largestSpend(spent: Spent): number {
  if (spent === null) return 0;
  if (typeof spent === 'string') return Number(spent);
  if (Array.isArray(spent)) return Math.max(0, ...spent.map((one) => Number(one.epsilon)));
  return Number(spent.epsilon);
}

export class Series {
  shape: Shape | null = null;
  leaves = 0;
  readonly timestamps: number[] = [];
  readonly seconds: number[] = [];
  readonly freshness: number[] = [];
  readonly spent: number[] = [];
  /** Whether each release spends the same of everybody: then spends of a window add up. */
  isSpentByAll = true;
  readonly suspicious = new Map<number, string[]>();
  /** A column for each number of a release. */
  readonly values: Float64Array[] = [];
  readonly variances: Float64Array[] = [];
  private room = 0;

  constructor(
    readonly names: string[],
    private readonly clock: (timestamp: number) => number,
    /** The oldest releases are dropped beyond so many. */
    readonly most = 20_000,
  ) {}

  get length(): number {
    return this.timestamps.length;
  }

  /** Adds a release unless it is there already; false for one that is older than the last. */
  push(record: ReleaseRecord): boolean {
    const last = this.timestamps.at(-1);
    if (last !== undefined && record.timestamp <= last) return false;
    const { shape, values, variances, leaves } = numbersOf(record.release.statistic);
    if (this.shape === null) {
      this.shape = shape;
      this.leaves = leaves;
    }
    if (this.length >= this.most) this.dropOldest(Math.ceil(this.most / 10));
    const place = this.length;
    if (place >= this.room || this.values.length < values.length) this.grow(values.length);
    for (let index = 0; index < values.length; index++) {
      this.values[index]![place] = values[index]!;
      this.variances[index]![place] = variances[index] ?? NaN;
    }
    this.timestamps.push(record.timestamp);
    this.seconds.push(record.time === undefined ? this.clock(record.timestamp) : Date.parse(record.time) / 1000);
    this.freshness.push(FRESHNESS.indexOf(record.release.freshness));
    this.spent.push(largestSpend(record.release.spent));
    if (typeof record.release.spent === 'object' && record.release.spent !== null) this.isSpentByAll = false;
    if (record.release.suspicious?.length) this.suspicious.set(record.timestamp, record.release.suspicious);
    return true;
  }

  freshnessAt(place: number): Freshness {
    return FRESHNESS[this.freshness[place] ?? 0] ?? 'fresh';
  }

  value(index: number, place: number): number {
    return this.values[index]?.[place] ?? NaN;
  }

  /** Null where the error is not stated. */
  variance(index: number, place: number): number | null {
    const variance = this.variances[index]?.[place] ?? NaN;
    return Number.isNaN(variance) ? null : variance;
  }

  interval(index: number, place: number, confidence: Confidence): [number, number] | null {
    return interval(this.value(index, place), this.variance(index, place), confidence, this.shape ?? 'number');
  }

  /** Place of the column of a value; a tree's leaves come last. */
  columnOf(value: number): number {
    return this.values.length - this.leaves + value;
  }

  nameOf(value: number): string {
    return this.names[value] ?? (this.shape === 'number' ? 'value' : String(value));
  }

  /** Places from the first at or after `from` to the last at or before `to`, in seconds. */
  between(from: number, to: number): [number, number] {
    return [lowerBound(this.seconds, from), lowerBound(this.seconds, to + 1e-9)];
  }

  /** Place of a timestamp, or -1. */
  placeOf(timestamp: number): number {
    const place = lowerBound(this.timestamps, timestamp);
    return this.timestamps[place] === timestamp ? place : -1;
  }

  /** The place nearest to a time. */
  nearest(seconds: number): number {
    const after = Math.min(lowerBound(this.seconds, seconds), this.length - 1);
    const before = Math.max(after - 1, 0);
    return Math.abs((this.seconds[before] ?? 0) - seconds) < Math.abs((this.seconds[after] ?? 0) - seconds)
      ? before
      : after;
  }

  /** Values by their mean over some places, largest first. */
  largest(count: number, first = 0, last = this.length): number[] {
    const means = Array.from({ length: this.leaves }, (_, value) => {
      const column = this.values[this.columnOf(value)];
      let sum = 0;
      for (let place = first; place < last; place++) sum += column?.[place] ?? 0;
      return sum;
    });
    const order = means.map((_, value) => value).sort((one, other) => means[other]! - means[one]! || one - other);
    return order.slice(0, count).sort((one, other) => one - other);
  }

  private grow(columns: number): void {
    this.room = Math.max(256, this.length >= this.room ? Math.ceil(this.room * 1.5) : this.room);
    const grown = (old: Float64Array | undefined): Float64Array => {
      const column = new Float64Array(this.room).fill(NaN);
      if (old) column.set(old.subarray(0, this.length));
      return column;
    };
    for (let index = 0; index < Math.max(columns, this.values.length); index++) {
      this.values[index] = grown(this.values[index]);
      this.variances[index] = grown(this.variances[index]);
    }
  }

  private dropOldest(count: number): void {
    for (const timestamp of this.timestamps.slice(0, count)) this.suspicious.delete(timestamp);
    for (const list of [this.timestamps, this.seconds, this.freshness, this.spent]) list.splice(0, count);
    for (const column of [...this.values, ...this.variances]) column.copyWithin(0, count);
  }
}

/** First place of a sorted list whose number is not below `wanted`. */
export function lowerBound(sorted: ArrayLike<number>, wanted: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Sums of a list over the windows that end at each place; windows count timestamps, not places. */
export function windowSums(timestamps: readonly number[], spends: readonly number[], window: number): number[] {
  const sums: number[] = [];
  let [sum, first] = [0, 0];
  for (let place = 0; place < timestamps.length; place++) {
    sum += spends[place]!;
    while (timestamps[first]! <= timestamps[place]! - window) sum -= spends[first++]!;
    sums.push(Math.max(sum, 0));
  }
  return sums;
}

/** When a timestamp begins, in seconds since 1970: a service's ticks are wall-clock time. */
export function clockOf(stream: Pick<Stream, 'tick' | 'epoch'>): (timestamp: number) => number {
  return (timestamp) => (stream.epoch ?? 0) + timestamp * stream.tick;
}

export function unitOf(shape: Shape | null): Unit | null {
  if (shape === 'counts') return 'counts';
  return shape === 'number' ? null : 'frequencies';
}
