// A heat map as a picture of pixels: time to the right, values upwards.

import type { Series } from '../data/series';
import type { Range } from '../data/ranges';
import { placeAt } from './TimePlot';
import { heat } from '../ui/theme';

export interface HeatScale {
  low: number;
  high: number;
  /** Whether larger numbers have the colour of `high`. */
  isCut: boolean;
}

/** Share of the numbers that the colours tell apart: a few noisy ones must not take them all. */
const TOLD_APART = 0.995;

/** The scale of what is in view. Noise below zero counts as zero. */
export function heatScale(series: Series, places: [number, number]): HeatScale {
  const numbers: number[] = [];
  // A sample of large pictures is enough.
  const each = Math.max(Math.floor(((places[1] - places[0]) * series.leaves) / 50_000), 1);
  for (let value = 0; value < series.leaves; value++) {
    const column = series.columnOf(value);
    for (let place = places[0] + (value % each); place < places[1]; place += each)
      numbers.push(series.value(column, place));
  }
  const sorted = Float64Array.from(numbers).sort();
  const most = sorted.at(-1) ?? 0;
  const high = sorted[Math.floor((sorted.length - 1) * TOLD_APART)] ?? 0;
  return high > 0 ? { low: 0, high, isCut: high < most } : { low: 0, high: most > 0 ? most : 1, isCut: false };
}

/** Release whose time a pixel shows; -1 where there is none. */
export function releaseAt(seconds: readonly number[], at: number, tick: number): number {
  if (!seconds.length) return -1;
  const nearest = placeAt(seconds, at);
  const place = seconds[nearest]! > at ? nearest - 1 : nearest;
  return place >= 0 && at - seconds[place]! < tick * 1.0001 ? place : -1;
}

export interface HeatOptions {
  range: Range;
  tick: number;
  scale: HeatScale;
  width: number;
  height: number;
}

export function heatPixels(series: Series, options: HeatOptions): Uint8ClampedArray<ArrayBuffer> {
  const { range, tick, scale, width, height } = options;
  const pixels = new Uint8ClampedArray(width * height * 4);
  const columns = Array.from({ length: series.leaves }, (_, value) => series.columnOf(value));
  for (let x = 0; x < width; x++) {
    const at = range.from + ((x + 0.5) / width) * (range.to - range.from);
    const place = releaseAt(series.seconds, at, tick);
    if (place < 0) continue;
    let shown = -1;
    let rgb: [number, number, number] = [0, 0, 0];
    for (let y = 0; y < height; y++) {
      const value = Math.min(Math.floor(((height - 1 - y + 0.5) / height) * series.leaves), series.leaves - 1);
      if (value !== shown) {
        shown = value;
        rgb = heat((series.value(columns[value]!, place) - scale.low) / (scale.high - scale.low));
      }
      const offset = (y * width + x) * 4;
      pixels[offset] = rgb[0];
      pixels[offset + 1] = rgb[1];
      pixels[offset + 2] = rgb[2];
      pixels[offset + 3] = 255;
    }
  }
  return pixels;
}
