// Rates from counters that are read again and again.

import type { Operations } from '../api/types';

export interface Sample {
  at: number;
  accepted: number;
  refused: number;
  releases: number;
}

export const sum = (counts: Record<string, number>): number =>
  Object.values(counts).reduce((one, other) => one + other, 0);

export function sampleOf(operations: Operations): Sample {
  const { now, reports, releases } = operations;
  return { at: now, accepted: reports.accepted, refused: sum(reports.refused), releases };
}

/** Numbers a second between neighbouring samples. A counter that fell belongs to a new process: it began at zero. */
export function ratesOf(samples: readonly Sample[], key: 'accepted' | 'refused' | 'releases'): number[] {
  const rates: number[] = [];
  for (let place = 1; place < samples.length; place++) {
    const [before, after] = [samples[place - 1]!, samples[place]!];
    const seconds = after.at - before.at;
    if (seconds <= 0) continue;
    const gained = after[key] < before[key] ? after[key] : after[key] - before[key];
    rates.push(gained / seconds);
  }
  return rates;
}
