// What the chart of a stream shows, from its address.

import type { Stream } from '../../api/types';
import { MOST_LINES, lineOf, parsePicks, type Line, type Pick } from '../../data/lines';
import { PRESETS, type Range } from '../../data/ranges';
import { CONFIDENCES, type Confidence, type Series } from '../../data/series';
import { amount } from '../../data/format';
import { param } from '../../state/route';

export const VIEWS = ['lines', 'stack', 'heat', 'tree', 'table'] as const;
export type ViewName = (typeof VIEWS)[number];

/** From so many values on, a heat map shows more than lines. */
const MANY = 16;
const USUAL_LINES = 5;

export function viewsFor(series: Series): ViewName[] {
  return VIEWS.filter((view) => {
    if (view === 'tree') return series.shape === 'tree';
    return (view !== 'stack' && view !== 'heat') || series.leaves > 1;
  });
}

export function viewOf(series: Series): ViewName {
  const asked = param('view');
  const found = viewsFor(series).find((view) => view === asked);
  return found ?? (series.shape === 'tree' ? 'tree' : series.leaves > MANY ? 'heat' : 'lines');
}

export function confidenceOf(): Confidence {
  const asked = Number(param('confidence') ?? NaN);
  return asked in CONFIDENCES ? (asked as Confidence) : 0.95;
}

/** The lines that the address names, or else the largest ones. */
export function picksOf(series: Series, view: ViewName): Pick[] {
  const asked = parsePicks(param('of'), series.leaves);
  if (asked) return asked;
  const count = view === 'stack' ? MOST_LINES : USUAL_LINES;
  const recent = Math.max(series.length - 200, 0);
  return series.largest(Math.min(count, series.leaves), recent).map((value) => ({ first: value, last: value }));
}

export const isShares = (series: Series | null): boolean => series?.shape === 'shares' || series?.shape === 'tree';

export const amountOf =
  (series: Series) =>
  (value: number): string =>
    amount(value, isShares(series));

/** All that is loaded, with room for the release to come. */
export function allOf(series: Series, tick: number): Range {
  const from = series.seconds[0] ?? Date.now() / 1000 - 60 * tick;
  return { from: from - tick / 2, to: Math.max((series.seconds.at(-1) ?? from) + tick, from + 2 * tick) };
}

/** The range that the address names; one that ends now moves on with the releases. */
export function rangeOf(series: Series, stream: Stream): { range: Range; isLive: boolean } {
  const all = allOf(series, stream.tick);
  const [from, to] = [Number(param('from') ?? NaN), Number(param('to') ?? NaN)];
  if (to > from) return { range: { from, to }, isLive: false };
  const preset = PRESETS.find(({ key }) => key === param('last'));
  const length = preset?.seconds ?? Math.max(86_400, stream.tick * 60);
  return { range: { from: Math.max(all.to - length, all.from), to: all.to }, isLive: true };
}

export function linesOf(series: Series, picks: Pick[], confidence: Confidence): Line[] {
  return picks.map((pick, place) => {
    // A value keeps its colour whichever others are shown.
    const colour = pick.first === pick.last && series.leaves <= 10 ? pick.first : place;
    return lineOf(series, pick, colour, confidence, [0, series.length]);
  });
}

/** Room between releases that is a gap: more than a tick, or more than is usual where ticks are left out. */
export function gapOf(series: Series, tick: number): number {
  const steps = series.seconds.slice(-200).map((seconds, place, all) => (place ? seconds - all[place - 1]! : tick));
  const middle = [...steps].sort((one, other) => one - other)[steps.length >> 1] ?? tick;
  return Math.max(tick, middle) * 1.5;
}
