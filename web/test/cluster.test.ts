import { expect, test } from 'vitest';
import type { ClusterPartition } from '../src/api/types';
import { holders, totalLag } from '../src/data/cluster';

const partition = (number: number, holder: string | null, lag: number | null): ClusterPartition => ({
  number,
  holder,
  epoch: 1,
  counted: 10,
  end: lag === null ? null : 10 + lag,
  lag,
});

test('partitions are listed by their reader', () => {
  const found = holders([partition(0, 'a', 1), partition(1, 'b', 2), partition(2, 'a', 3), partition(3, null, 4)]);
  expect([...found]).toEqual([
    ['a', [0, 2]],
    ['b', [1]],
  ]);
});

test('a lag that is not known is not taken for zero', () => {
  expect(totalLag([partition(0, 'a', 1), partition(1, null, 2)])).toBe(3);
  expect(totalLag([partition(0, 'a', 1), partition(1, 'a', null)])).toBeNull();
  expect(totalLag([])).toBe(0);
});
