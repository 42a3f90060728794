import { describe, expect, it } from 'vitest';
import type { Freshness, ReleaseRecord, Statistic } from '../src/api/types';
import { clockOf, interval, largestSpend, lowerBound, numbersOf, Series, windowSums } from '../src/data/series';
import { cover, heightOf, nodesOf } from '../src/data/tree';
import { columnsOf, lineOf, parsePicks, pickText, pointOf, stacked } from '../src/data/lines';

function record(timestamp: number, statistic: Statistic, freshness: Freshness = 'fresh', time?: string): ReleaseRecord {
  const release = { timestamp, statistic, freshness, spent: '0.05', seeded: false };
  return { number: timestamp + 1, version: timestamp + 1, timestamp, release, ...(time ? { time } : {}) };
}
const shares = (frequencies: number[], variances: (number | null)[]): Statistic => ({
  histogram: { frequencies, variances },
});

describe('numbers of a release', () => {
  it('reads every kind of statistic', () => {
    expect(numbersOf(shares([0.2, 0.8], [0.01, null]))).toEqual({
      shape: 'shares',
      values: [0.2, 0.8],
      variances: [0.01, null],
      leaves: 2,
    });
    expect(numbersOf({ counts: { counts: [3], variances: [1] } }).shape).toBe('counts');
    expect(numbersOf({ number: { value: 4.5, variance: null } })).toMatchObject({
      shape: 'number',
      values: [4.5],
      leaves: 1,
    });
    expect(numbersOf({ tree: { shape: 2, frequencies: [1, 0.3, 0.7], variances: [0, 1, 1] } })).toMatchObject({
      leaves: 2,
    });
  });

  it('ends intervals where the truth can lie', () => {
    expect(interval(0.01, 0.01, 0.95, 'shares')).toEqual([0, expect.closeTo(0.206, 3)]);
    expect(interval(3, 100, 0.95, 'counts')![0]).toBe(0);
    expect(interval(-3, 4, 0.95, 'number')![0]).toBeCloseTo(-6.92, 2);
    expect(interval(0.5, null, 0.95, 'shares')).toBeNull();
    // An estimate below zero is still told, and its interval is what can be true.
    expect(interval(-0.5, 0.0001, 0.95, 'shares')).toEqual([0, 0]);
  });

  it('takes the largest spend of anybody', () => {
    expect(largestSpend(null)).toBe(0);
    expect(largestSpend('0.25')).toBe(0.25);
    expect(largestSpend({ first_slot: 0, slots: 10, epsilon: '1' })).toBe(1);
    expect(
      largestSpend([
        { class: 0, epsilon: '0.1' },
        { class: 1, epsilon: '0.4' },
      ]),
    ).toBe(0.4);
  });
});

describe('a series', () => {
  const clock = clockOf({ tick: 60, epoch: 1000 });

  it('takes each release once, in order', () => {
    const series = new Series(['a', 'b'], clock);
    expect(series.push(record(5, shares([0.2, 0.8], [0.01, 0.04])))).toBe(true);
    expect(series.push(record(5, shares([0.9, 0.1], [0, 0])))).toBe(false);
    expect(series.push(record(4, shares([0.9, 0.1], [0, 0])))).toBe(false);
    expect(series.push(record(7, shares([0.3, 0.7], [null, 0.04]), 'nullified'))).toBe(true);
    expect(series.timestamps).toEqual([5, 7]);
    expect(series.seconds).toEqual([1300, 1420]);
    expect(series.value(0, 0)).toBe(0.2);
    expect(series.variance(0, 1)).toBeNull();
    expect(series.freshnessAt(1)).toBe('nullified');
    expect(series.placeOf(7)).toBe(1);
    expect(series.placeOf(6)).toBe(-1);
    expect(series.nearest(1350)).toBe(0);
    expect(series.between(1300, 1420)).toEqual([0, 2]);
    expect(series.isSpentByAll).toBe(true);
    const slots = record(8, shares([0.3, 0.7], [null, 0.04]));
    slots.release.spent = { first_slot: 0, slots: 8, epsilon: '1' };
    series.push(slots);
    expect(series.isSpentByAll).toBe(false);
  });

  it('prefers the time that a release states', () => {
    const series = new Series(['a'], clock);
    series.push(record(1, shares([1], [0]), 'fresh', '2026-03-01'));
    expect(series.seconds[0]).toBe(Date.UTC(2026, 2, 1) / 1000);
  });

  it('keeps the newest releases when there are too many, and all their numbers', () => {
    const series = new Series(['a', 'b'], clock, 1000);
    for (let timestamp = 0; timestamp < 2500; timestamp++) {
      series.push(record(timestamp, shares([timestamp, -timestamp], [timestamp, null])));
    }
    expect(series.length).toBeLessThanOrEqual(1000);
    expect(series.timestamps.at(-1)).toBe(2499);
    for (const place of [0, 1, series.length - 1]) {
      expect(series.value(0, place)).toBe(series.timestamps[place]);
      expect(series.value(1, place)).toBe(-series.timestamps[place]!);
      expect(series.variance(1, place)).toBeNull();
    }
  });

  it('finds the largest values in the order of the domain', () => {
    const series = new Series(['a', 'b', 'c'], clock);
    series.push(record(0, shares([0.1, 0.3, 0.6], [0, 0, 0])));
    series.push(record(1, shares([0.1, 0.5, 0.4], [0, 0, 0])));
    expect(series.largest(2)).toEqual([1, 2]);
  });

  it('sums spends over windows of timestamps, also where some are missing', () => {
    expect(windowSums([0, 1, 2, 5], [1, 2, 4, 8], 3)).toEqual([1, 3, 7, 8]);
    expect(lowerBound([1, 3, 3, 7], 3)).toBe(1);
    expect(lowerBound([], 3)).toBe(0);
  });
});

describe('trees', () => {
  it('numbers nodes level by level, as the service does', () => {
    expect(heightOf(10)).toBe(4);
    expect(heightOf(1)).toBe(0);
    const nodes = nodesOf(10);
    expect(nodes).toHaveLength(21);
    expect(nodes[1]).toMatchObject({ level: 1, first: 0, last: 7 });
    expect(nodes[2]).toMatchObject({ level: 1, first: 8, last: 9 });
    expect(nodes[20]).toMatchObject({ level: 4, first: 9, last: 9, place: 20 });
  });

  it('covers any range exactly, by no more nodes than two a level', () => {
    for (const domain of [2, 5, 8, 10, 33]) {
      for (let first = 0; first < domain; first++) {
        for (let last = first; last < domain; last++) {
          const chosen = cover(domain, first, last);
          const values = chosen.flatMap((node) =>
            Array.from({ length: node.last - node.first + 1 }, (_, index) => node.first + index),
          );
          expect(values.sort((one, other) => one - other)).toEqual(
            Array.from({ length: last - first + 1 }, (_, index) => first + index),
          );
          expect(chosen.length).toBeLessThanOrEqual(2 * Math.max(heightOf(domain), 1));
        }
      }
    }
  });

  it('sums a range over the nodes of its cover, and values one by one elsewhere', () => {
    const tree = new Series(['a', 'b', 'c', 'd'], clockOf({ tick: 1 }));
    tree.push(
      record(0, {
        tree: {
          shape: 4,
          frequencies: [1, 0.6, 0.4, 0.3, 0.3, 0.1, 0.3],
          variances: [0, 0.01, 0.01, 0.1, 0.1, 0.1, 0.1],
        },
      }),
    );
    expect(columnsOf(tree, { first: 0, last: 1 })).toEqual([1]);
    expect(pointOf(tree, columnsOf(tree, { first: 0, last: 2 }), 0)).toEqual([
      expect.closeTo(0.7, 9),
      expect.closeTo(0.11, 9),
    ]);
    const flat = new Series(['a', 'b'], clockOf({ tick: 1 }));
    flat.push(record(0, shares([0.2, 0.3], [0.01, null])));
    expect(columnsOf(flat, { first: 0, last: 1 })).toEqual([0, 1]);
    expect(pointOf(flat, [0, 1], 0)).toEqual([0.5, null]);
  });
});

describe('lines', () => {
  it('reads picks of an address, and leaves out those of another domain', () => {
    expect(parsePicks('0,2-4,9,x,3-1', 5)).toEqual([
      { first: 0, last: 0 },
      { first: 2, last: 4 },
    ]);
    expect(parsePicks('', 5)).toBeNull();
    expect(parsePicks('7', 5)).toBeNull();
    expect(['0', '2-4'].map((text) => pickText(parsePicks(text, 5)![0]!))).toEqual(['0', '2-4']);
  });

  it('has no interval where the error is not stated', () => {
    const series = new Series(['a'], clockOf({ tick: 1 }));
    series.push(record(0, shares([0.5], [0.0001])));
    series.push(record(1, shares([0.5], [null])));
    const line = lineOf(series, { first: 0, last: 0 }, 0, 0.95, [0, 2]);
    expect(line.low).toEqual([expect.closeTo(0.4804, 4), null]);
    expect(line.high).toEqual([expect.closeTo(0.5196, 4), null]);
  });

  it('stacks from the bottom, and takes what lies below zero as nothing', () => {
    const line = (values: (number | null)[]) => ({
      pick: { first: 0, last: 0 },
      label: '',
      colour: 0,
      values,
      low: [],
      high: [],
    });
    expect(stacked([line([1, -1, null]), line([2, 2, 3])])).toEqual([
      [1, 0, 0],
      [3, 2, 3],
    ]);
  });
});
