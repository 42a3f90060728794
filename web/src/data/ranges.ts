// Time ranges of charts, and how an address names them.

export interface Range {
  from: number;
  to: number;
}

export const PRESETS = [
  { key: '15m', seconds: 900, label: '15 min' },
  { key: '1h', seconds: 3600, label: '1 h' },
  { key: '6h', seconds: 21_600, label: '6 h' },
  { key: '24h', seconds: 86_400, label: '24 h' },
  { key: '7d', seconds: 604_800, label: '7 d' },
  { key: '30d', seconds: 2_592_000, label: '30 d' },
  { key: 'all', seconds: Infinity, label: 'All' },
] as const;

/** Part of a range by which the arrow keys move it. */
const STEP = 0.1;

export function pan(range: Range, parts: number): Range {
  const shift = (range.to - range.from) * STEP * parts;
  return { from: range.from + shift, to: range.to + shift };
}

/** Zooms about a place; a factor below one shows less. */
export function zoom(range: Range, factor: number, about = (range.from + range.to) / 2, least = 2): Range {
  const length = Math.max((range.to - range.from) * factor, least);
  const part = (about - range.from) / (range.to - range.from || 1);
  const from = about - part * length;
  return { from, to: from + length };
}

export function clampRange(range: Range, all: Range): Range {
  const length = Math.min(range.to - range.from, (all.to - all.from) * 1.5 || 1);
  const from = Math.min(Math.max(range.from, all.from - length * 0.5), all.to - length * 0.5);
  return { from, to: from + length };
}

const STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800,
  1_209_600, 2_592_000, 7_776_000, 31_536_000,
];

/** Times of ticks of an axis, whole in the reader's time zone. */
export function timeTicks(from: number, to: number, most: number): number[] {
  if (!(to > from)) return [];
  const step =
    STEPS.find((step) => (to - from) / step <= most) ?? Math.ceil((to - from) / most / 31_536_000) * 31_536_000;
  const offset = new Date(from * 1000).getTimezoneOffset() * 60;
  const ticks: number[] = [];
  for (let tick = Math.ceil((from - offset) / step) * step + offset; tick <= to; tick += step) ticks.push(tick);
  return ticks;
}

/** Ticks of an axis of numbers: 1, 2 or 5 times a power of ten. */
export function numberTicks(low: number, high: number, most: number): number[] {
  const span = high - low;
  if (!(span > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((step) => span / step <= most) ?? 10 * power;
  const ticks: number[] = [];
  for (let count = Math.ceil(low / step - 1e-9); count * step <= high + step * 1e-9; count++) {
    ticks.push(Number((count * step).toPrecision(12)));
  }
  return ticks;
}
