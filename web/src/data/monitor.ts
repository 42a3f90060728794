// The score of a monitor on what is loaded, and when it would have started and ended an event.

import type { MonitorSpec, Spec, Value } from '../api/types';
import { indexOf } from './domain';
import { columnsOf, pointOf, type Pick } from './lines';
import type { Series } from './series';

type Subject = { [K in 'value' | 'first' | 'last']?: Value };

/** The values that a query or a monitor is about. */
export function pickOf(spec: Spec, of: Subject): Pick {
  const first = indexOf(spec, of.value ?? of.first);
  const last = indexOf(spec, of.value ?? of.last);
  return { first: Math.max(first, 0), last: Math.max(last, first, 0) };
}

/** Factor from the unit of the stream to that of the monitor. */
function scale(series: Series, unit: 'frequencies' | 'counts', population: number, place: number): number {
  if (series.shape === 'counts' && unit === 'frequencies') {
    let total = 0;
    for (let value = 0; value < series.leaves; value++) total += Math.max(series.value(value, place), 0);
    return total > 0 ? 1 / total : NaN;
  }
  return series.shape !== 'counts' && unit === 'counts' ? population : 1;
}

/** The score at each place; null where its period is not loaded. */
export function scores(series: Series, monitor: MonitorSpec, spec: Spec): (number | null)[] {
  const columns = columnsOf(series, pickOf(spec, monitor));
  const unit = monitor.unit ?? 'frequencies';
  const levels: number[] = [];
  for (let place = 0; place < series.length; place++) {
    levels.push(pointOf(series, columns, place)[0] * scale(series, unit, spec.population ?? NaN, place));
  }
  const delta = monitor.delta ?? 1;
  const period = (timestamp: number): number | null => {
    let sum = 0;
    for (let back = 0; back < delta; back++) {
      const place = series.placeOf(timestamp - back);
      if (place < 0) return null;
      sum += levels[place]!;
    }
    return Number.isNaN(sum) ? null : sum;
  };
  const shift = monitor.shift ?? delta;
  return series.timestamps.map((timestamp) => {
    const now = period(timestamp);
    if (monitor.score !== 'change') return now;
    const before = period(timestamp - shift);
    return now === null || before === null ? null : now - before;
  });
}

export type Thresholds = { direction: 'above' | 'below'; start: number; end?: number };

export interface Event {
  started: number;
  ended: number | null;
}

/** Events of a score, with hysteresis: places where they start and end. */
export function eventsOf(score: readonly (number | null)[], monitor: Thresholds): Event[] {
  const sign = monitor.direction === 'above' ? 1 : -1;
  const end = monitor.end ?? monitor.start;
  const events: Event[] = [];
  let active: Event | null = null;
  score.forEach((value, place) => {
    if (value === null) return;
    if (!active && sign * value > sign * monitor.start) events.push((active = { started: place, ended: null }));
    else if (active && sign * value <= sign * end) {
      active.ended = place;
      active = null;
    }
  });
  return events;
}
