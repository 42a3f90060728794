// Search, filter and order of the overview.

import type { OverviewRow } from '../api/types';

export const FILTERS = ['all', 'running', 'paused', 'retired', 'alarms', 'attention'] as const;
export type Filter = (typeof FILTERS)[number];
export const ORDERS = ['name', 'status', 'last', 'budget', 'alarms'] as const;
export type Order = (typeof ORDERS)[number];

/** A stream is late beyond so many ticks. */
const LATE = 2;

export const isLate = (row: OverviewRow): boolean => row.lag !== null && row.lag > LATE * row.tick;

export function needsAttention(row: OverviewRow): boolean {
  return (
    row.problem ||
    isLate(row) ||
    (row.status === 'running' && !row.driven) ||
    row.last?.suspicious === true ||
    (row.budget_left !== null && row.budget_left < 0.1) ||
    (row.alarms?.active ?? 0) > 0
  );
}

export function matches(row: OverviewRow, search: string, filter: Filter): boolean {
  switch (filter) {
    case 'running':
    case 'paused':
    case 'retired':
      if (row.status !== filter) return false;
      break;
    case 'alarms':
      if (!row.alarms || (row.alarms.active === 0 && row.alarms.unacknowledged === 0)) return false;
      break;
    case 'attention':
      if (!needsAttention(row)) return false;
      break;
    case 'all':
  }
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const text = `${row.name} ${row.family} ${row.mechanism} ${row.family}.${row.mechanism}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

const RANK = { running: 1, paused: 2, retired: 3 };

export function compare(one: OverviewRow, other: OverviewRow, order: Order): number {
  const by: Record<Order, () => number> = {
    name: () => 0,
    status: () => (one.problem ? 0 : RANK[one.status]) - (other.problem ? 0 : RANK[other.status]),
    last: () => (other.last?.through ?? 0) - (one.last?.through ?? 0),
    budget: () => (one.budget_left ?? 2) - (other.budget_left ?? 2),
    alarms: () => alarmRank(other) - alarmRank(one),
  };
  return by[order]() || (one.name < other.name ? -1 : one.name > other.name ? 1 : 0);
}

const alarmRank = (row: OverviewRow): number => (row.alarms?.active ?? 0) * 1e6 + (row.alarms?.unacknowledged ?? 0);
