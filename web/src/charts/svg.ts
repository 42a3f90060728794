// The chart as a file: SVG that stands by itself, from the numbers and not from the screen.

import type { TimeChartData } from './time';
import { bandOpacity, timeLabels } from './time';
import { stacked } from '../data/lines';
import { numberTicks, timeTicks, type Range } from '../data/ranges';
import { colour, faded, seriesColour, seriesDash } from '../ui/theme';

export interface SvgOptions {
  title: string;
  subtitle: string;
  range: Range;
  width: number;
  height: number;
  /** A picture of the plot's inside, for a heat map. */
  picture?: string;
}

/** Text of a user must not become markup. */
export function escaped(text: string): string {
  const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
  return text.replace(/[&<>"']/g, (letter) => names[letter]!);
}

const LEFT = 76;
const RIGHT = 20;
const TOP = 64;
const BOTTOM = 34;

export function chartSvg(data: TimeChartData, options: SvgOptions): string {
  const { range, width, height } = options;
  const legend = options.picture ? [] : data.lines;
  const rows = Math.ceil(legend.length / 5);
  const bottom = height - BOTTOM - rows * 20;
  const places = data.seconds
    .map((_, place) => place)
    .filter((place) => {
      const seconds = data.seconds[place]!;
      return seconds >= range.from && seconds <= range.to;
    });
  const tops = data.isStack ? stacked(data.lines) : null;
  const numbers = [...data.include];
  for (const [index, line] of data.lines.entries()) {
    for (const place of places) {
      const ends = tops ? [0, tops[index]![place]] : [line.values[place], line.low[place], line.high[place]];
      for (const one of ends) if (one != null) numbers.push(one);
    }
  }
  const lowest = numbers.reduce((least, one) => Math.min(least, one), Infinity);
  const highest = numbers.reduce((most, one) => Math.max(most, one), -Infinity);
  const room = (highest - lowest || 1) * 0.06;
  const [low, high] = numbers.length ? [lowest >= 0 ? 0 : lowest - room, highest + room] : [0, 1];
  const x = (seconds: number): number =>
    LEFT + ((seconds - range.from) / (range.to - range.from)) * (width - LEFT - RIGHT);
  const y = (value: number): number => bottom - ((value - low) / (high - low)) * (bottom - TOP);
  const at = (place: number, value: number): string => `${x(data.seconds[place]!).toFixed(1)} ${y(value).toFixed(1)}`;

  const parts: string[] = [];
  const text = (left: number, top: number, words: string, more = ''): void =>
    void parts.push(`<text x="${left.toFixed(1)}" y="${top.toFixed(1)}" ${more}>${escaped(words)}</text>`);
  parts.push(`<rect width="${width}" height="${height}" fill="${colour('card')}"/>`);
  text(16, 26, options.title, `font-size="17" font-weight="650" fill="${colour('ink')}"`);
  text(16, 46, options.subtitle, `fill="${colour('soft')}"`);
  if (options.picture) {
    parts.push(
      `<image href="${options.picture}" x="${LEFT}" y="${TOP}" ` +
        `width="${width - LEFT - RIGHT}" height="${bottom - TOP}" ` +
        'preserveAspectRatio="none"/>',
    );
  } else {
    for (const value of numberTicks(low, high, 7)) {
      parts.push(`<path d="M${LEFT} ${y(value).toFixed(1)}H${width - RIGHT}" stroke="${colour('line')}"/>`);
      text(LEFT - 8, y(value) + 4, data.amount(value), `text-anchor="end" fill="${colour('soft')}"`);
    }
  }
  const ticks = timeTicks(range.from, range.to, Math.floor(width / 110));
  timeLabels(ticks, data.tick).forEach((label, place) => {
    text(x(ticks[place]!), bottom + 18, label.replace('\n', ' '), `text-anchor="middle" fill="${colour('soft')}"`);
  });
  if (!options.picture) parts.push(...drawn());
  legend.forEach((line, place) => {
    const left = LEFT + (place % 5) * ((width - LEFT - RIGHT) / 5);
    const top = bottom + 40 + Math.floor(place / 5) * 20;
    parts.push(`<rect x="${left}" y="${top - 10}" width="12" height="12" fill="${seriesColour(line.colour)}"/>`);
    text(left + 18, top, line.label, `fill="${colour('ink')}"`);
  });
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
    `font-family="system-ui, sans-serif" font-size="12">${parts.join('')}</svg>`
  );

  function drawn(): string[] {
    return data.lines.flatMap((line, index) => {
      const shown = tops ? tops[index]! : line.values;
      const stroke = seriesColour(line.colour);
      const base = (place: number): number | null =>
        tops ? (index ? (tops[index - 1]![place] ?? 0) : 0) : (line.low[place] ?? null);
      const top = (place: number): number | null => (tops ? (shown[place] ?? null) : (line.high[place] ?? null));
      const paths: string[] = [];
      for (const run of runs()) {
        const banded = run.filter((place) => base(place) !== null && top(place) !== null);
        if (banded.length > 1) {
          const outline = [
            ...banded.map((place) => at(place, top(place)!)),
            ...banded.reverse().map((place) => at(place, base(place)!)),
          ];
          paths.push(
            `<path d="M${outline.join('L')}Z" fill="${faded(stroke, tops ? 0.55 : bandOpacity(data.lines.length))}"/>`,
          );
        }
        const known = run.filter((place) => shown[place] != null);
        const dash = seriesDash(line.colour).join(' ');
        paths.push(
          `<path d="M${known.map((place) => at(place, shown[place]!)).join('L')}" fill="none" stroke="${stroke}" ` +
            `stroke-width="1.75"${dash ? ` stroke-dasharray="${dash}"` : ''}/>`,
        );
      }
      return paths;
    });
  }

  /** Releases without a gap between them. */
  function runs(): number[][] {
    const all: number[][] = [];
    for (const place of places) {
      const run = all.at(-1);
      const before = run?.at(-1);
      if (run && before !== undefined && data.seconds[place]! - data.seconds[before]! <= data.gap) run.push(place);
      else all.push([place]);
    }
    return all;
  }
}

/** The same as PNG, two pixels for each of SVG's. */
export async function svgToPng(svg: string, width: number, height: number): Promise<Blob> {
  const address = URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = width * 2;
    canvas.height = height * 2;
    canvas.getContext('2d')!.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => {
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('this browser cannot write PNG'))), 'image/png');
    });
  } finally {
    URL.revokeObjectURL(address);
  }
}
