// Numbers and times in the reader's language and time zone.

const numbers = new Map<string, Intl.NumberFormat>();

function numberFormat(options: Intl.NumberFormatOptions): Intl.NumberFormat {
  const key = JSON.stringify(options);
  let format = numbers.get(key);
  if (!format) numbers.set(key, (format = new Intl.NumberFormat(undefined, options)));
  return format;
}

/** A number with some significant digits, and no more digits before the point than it has. */
export function figure(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  const size = Math.abs(value);
  if (size >= 1e9 || (size > 0 && size < 1e-4)) {
    return numberFormat({ notation: 'scientific', maximumSignificantDigits: Math.min(digits, 3) }).format(value);
  }
  if (size >= 10 ** digits) return numberFormat({ maximumFractionDigits: 0 }).format(value);
  return numberFormat({ maximumSignificantDigits: digits }).format(value);
}

export const whole = (value: number): string => numberFormat({ maximumFractionDigits: 0 }).format(value);

export const percent = (share: number, digits = 0): string =>
  numberFormat({ style: 'percent', maximumFractionDigits: digits }).format(share);

export const bytes = (size: number): string => {
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte'];
  const step = size > 0 ? Math.min(Math.floor(Math.log10(size) / 3), units.length - 1) : 0;
  return numberFormat({
    style: 'unit',
    unit: units[step]!,
    unitDisplay: 'short',
    maximumSignificantDigits: 3,
  }).format(size / 1000 ** step);
};

/** A value of a statistic: shares in percent, counts and numbers as they are. */
export function amount(value: number | null | undefined, isShare: boolean, digits = 3): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (!isShare) return figure(value, Math.max(digits, 4));
  return numberFormat({ style: 'percent', maximumSignificantDigits: digits }).format(Math.round(value * 1e6) / 1e6 + 0);
}

const times = new Map<string, Intl.DateTimeFormat>();

function timeFormat(key: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  let format = times.get(key);
  if (!format) times.set(key, (format = new Intl.DateTimeFormat(undefined, options)));
  return format;
}

/** A moment, as exactly as ticks of `tick` seconds need. */
export function moment(seconds: number, tick = 60): string {
  if (!Number.isFinite(seconds)) return '–';
  if (tick >= 86_400 && tick % 86_400 === 0) {
    return timeFormat('day', { dateStyle: 'medium', timeZone: 'UTC' }).format(seconds * 1000);
  }
  const timeStyle = tick < 60 ? 'medium' : 'short';
  return timeFormat(`moment ${timeStyle}`, { dateStyle: 'medium', timeStyle }).format(seconds * 1000);
}

export function clockTime(seconds: number, tick = 60): string {
  const timeStyle = tick < 60 ? 'medium' : 'short';
  return timeFormat(`clock ${timeStyle}`, { timeStyle }).format(seconds * 1000);
}

export const dayAndMonth = (seconds: number): string =>
  timeFormat('day and month', { day: 'numeric', month: 'short' }).format(seconds * 1000);

export const monthAndYear = (seconds: number): string =>
  timeFormat('month and year', { month: 'short', year: 'numeric' }).format(seconds * 1000);

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' });

/** How long ago, or in how long. */
export function ago(seconds: number, now: number): string {
  const difference = seconds - now;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(difference) >= size) ?? ['second', 1];
  return relative.format(Math.trunc(difference / size), unit);
}

/** A length of time in words: "90 minutes". With `isSpan`, as one speaks of a window: "24 hours", not "1 day". */
export function duration(seconds: number, isSpan = false): string {
  const units: [string, number][] = [
    ['week', 604_800],
    ['day', 86_400],
    ['hour', 3600],
    ['minute', 60],
    ['second', 1],
  ];
  const exact = units.find(([, size]) => seconds >= size && seconds % size === 0);
  const [unit, size] = exact ?? units.find(([, size]) => seconds >= size) ?? ['second', 1];
  const smaller = units[units.findIndex(([name]) => name === unit) + 1];
  const [name, length] = isSpan && seconds / size === 1 && smaller && unit !== 'week' ? smaller : [unit, size];
  return numberFormat({ style: 'unit', unit: name, unitDisplay: 'long', maximumFractionDigits: 1 }).format(
    seconds / length,
  );
}

/** Words as a title: the first letter is large. */
export const sentence = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);
