// What charts and tables show: chosen values or ranges of values as lines with intervals.

import { interval, type Confidence, type Series } from './series';
import { cover } from './tree';

/** A value, or a range of values in the order of the domain, both ends included. */
export interface Pick {
  first: number;
  last: number;
}

export interface Line {
  pick: Pick;
  label: string;
  /** Place in the palette. */
  colour: number;
  values: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
}

export const MOST_LINES = 12;

export function parsePicks(text: string | null, leaves: number): Pick[] | null {
  if (!text) return null;
  const picks: Pick[] = [];
  for (const part of text.split(',')) {
    const found = /^(\d+)(?:-(\d+))?$/.exec(part);
    if (!found) continue;
    const first = Number(found[1]);
    const last = Number(found[2] ?? found[1]);
    if (first <= last && last < leaves) picks.push({ first, last });
  }
  return picks.length ? picks.slice(0, MOST_LINES) : null;
}

export const pickText = ({ first, last }: Pick): string => (first === last ? String(first) : `${first}-${last}`);

export function pickLabel(series: Series, { first, last }: Pick): string {
  if (series.shape === 'number') return 'value';
  if (first === last) return series.nameOf(first);
  return `${series.nameOf(first)} to ${series.nameOf(last)}`;
}

/** Columns whose sum is the pick: nodes of a tree, or single values. */
export function columnsOf(series: Series, { first, last }: Pick): number[] {
  if (series.shape === 'tree' && first !== last) return cover(series.leaves, first, last).map(({ place }) => place);
  return Array.from({ length: last - first + 1 }, (_, index) => series.columnOf(first + index));
}

/** Value and variance of a pick; errors of different values are taken as uncorrelated. */
export function pointOf(series: Series, columns: readonly number[], place: number): [number, number | null] {
  let value = 0;
  let variance: number | null = 0;
  for (const column of columns) {
    value += series.value(column, place);
    const own = series.variance(column, place);
    variance = own === null || variance === null ? null : variance + own;
  }
  return [value, variance];
}

export function lineOf(
  series: Series,
  pick: Pick,
  colour: number,
  confidence: Confidence,
  places: [number, number],
): Line {
  const columns = columnsOf(series, pick);
  const line: Line = { pick, label: pickLabel(series, pick), colour, values: [], low: [], high: [] };
  for (let place = places[0]; place < places[1]; place++) {
    const [value, variance] = pointOf(series, columns, place);
    const ends = interval(value, variance, confidence, series.shape ?? 'number');
    line.values.push(Number.isNaN(value) ? null : value);
    line.low.push(ends?.[0] ?? null);
    line.high.push(ends?.[1] ?? null);
  }
  return line;
}

/** Lines on top of each other, the last on top; what lies below zero counts as nothing. */
export function stacked(lines: readonly Line[]): (number | null)[][] {
  const sums = new Array<number>(lines[0]?.values.length ?? 0).fill(0);
  return lines.map((line) => line.values.map((value, place) => (sums[place]! += Math.max(value ?? 0, 0))));
}
