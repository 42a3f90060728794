// What follows from the partitions of a cluster.

import type { ClusterPartition } from '../api/types';

/** The partitions that each process reads. */
export function holders(partitions: readonly ClusterPartition[]): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const { number, holder } of partitions) {
    if (holder !== null) found.set(holder, [...(found.get(holder) ?? []), number]);
  }
  return found;
}

/** Records that are not counted yet; null where the log of a partition did not answer. */
export function totalLag(partitions: readonly ClusterPartition[]): number | null {
  let total = 0;
  for (const { lag } of partitions) {
    if (lag === null) return null;
    total += lag;
  }
  return total;
}
