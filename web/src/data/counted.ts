// Streams of devices before any report is counted: their releases are what a mechanism assumes, and no fact.

import type { Freshness, Spec } from '../api/types';
import type { Series } from './series';

export const UNCOUNTED = 'no report has been counted yet';

/** Zero, or the share of a value among some equally frequent ones: what mechanisms assume before the first report. */
const isAssumed = (value: number): boolean =>
  value === 0 || (value > 0 && Math.abs(1 / value - Math.round(1 / value)) < 1e-6);

/** Whether releases of a value are assumptions only: none is fresh, and it has never moved. */
export function isUncounted(
  family: Spec['family'],
  freshness: readonly Freshness[],
  values: ArrayLike<number>,
): boolean {
  if (family !== 'local' || freshness.length === 0 || freshness.includes('fresh')) return false;
  const [first = 0] = [values[0]];
  for (let place = 0; place < freshness.length; place++) if (values[place] !== first) return false;
  return isAssumed(first);
}

/** Whether all that is loaded of a stream are assumptions. */
export function isSeriesUncounted(family: Spec['family'], series: Series): boolean {
  if (family !== 'local') return false;
  const freshness = series.timestamps.map((_, place) => series.freshnessAt(place));
  return (
    series.leaves > 0 &&
    Array.from({ length: series.leaves }).every((_, value) =>
      isUncounted(family, freshness, series.values[series.columnOf(value)]!),
    )
  );
}
