// The score of a monitor on what is loaded, and when it would have started and ended an event.

import type { MonitorSpec, QuerySpec, Spec, Unit, Value } from '../api/types';
import { indexOf } from './domain';
import { amount, duration, percent } from './format';
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

/** Thresholds that few releases pass: a tenth of the scores lies beyond the start, and the end a little before it. */
export function proposed(
  score: readonly (number | null)[],
  direction: 'above' | 'below',
): Thresholds & { end: number } {
  const known = score.filter((one): one is number => one !== null).sort((one, other) => one - other);
  const place = Math.floor((known.length - 1) * (direction === 'above' ? 0.9 : 0.1));
  const start = Number((known[place] ?? 0.5).toPrecision(2));
  const spread = (known.at(-1) ?? 0) - (known[0] ?? 0);
  const gap = 0.1 * (spread || Math.abs(start) || 1);
  return { direction, start, end: Number((start - (direction === 'above' ? gap : -gap)).toPrecision(2)) };
}

/** A threshold as it is written; null where it is no number. */
export function thresholdOf(text: string): number | null {
  return text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : null;
}

function aboutOf(of: QuerySpec | MonitorSpec): string {
  if ('top' in of && of.top !== undefined) return `the ${of.top} most frequent values`;
  return of.value !== undefined ? `${of.value}` : `${of.first} to ${of.last}`;
}

const periodOf = (delta: number | undefined, tick: number): string =>
  (delta ?? 1) > 1 ? `, over ${duration(delta! * tick)}` : '';

const unitText = (unit: Unit | undefined): string => (unit === 'counts' ? 'number of users' : 'share');

/** What a standing query asks. */
export function queryText(query: QuerySpec, tick: number): string {
  return `${unitText(query.unit)} of ${aboutOf(query)}${periodOf(query.delta, tick)}`;
}

/** When a monitor raises an alarm: of what, in which unit, and how surely. */
export function monitorText(monitor: MonitorSpec, tick: number): string {
  const isShare = monitor.unit !== 'counts' && (monitor.delta ?? 1) === 1;
  const score = `${monitor.score === 'change' ? 'change of the ' : ''}${unitText(monitor.unit)} of ${aboutOf(monitor)}`;
  const [start, end] = [monitor.start, monitor.end ?? monitor.start].map((one) => amount(one, isShare));
  const judge = monitor.confidence === undefined ? 'estimate' : `whole ${percent(monitor.confidence)} interval`;
  const period = periodOf(monitor.delta, tick);
  return `${score}${period} ${monitor.direction} ${start}, until ${end}, judged by the ${judge}`;
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
