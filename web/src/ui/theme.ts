// Light or dark, and colours for canvases.

import { effect, signal } from '@preact/signals';

export type Theme = 'auto' | 'light' | 'dark';
const KEY = 'tidegate theme';

export const theme = signal<Theme>('auto');
/** Changes whenever colours do: what draws on a canvas reads it. */
export const palette = signal(0);

let probe: HTMLElement | null = null;
const known = new Map<string, string>();

export function watchTheme(): void {
  const kept = localStorage.getItem(KEY);
  if (kept === 'light' || kept === 'dark') theme.value = kept;
  effect(() => {
    if (theme.value === 'auto') {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem(KEY);
    } else {
      document.documentElement.dataset.theme = theme.value;
      localStorage.setItem(KEY, theme.value);
    }
    known.clear();
    palette.value = palette.peek() + 1;
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    known.clear();
    palette.value += 1;
  });
}

/** The colour of a custom property, as a canvas takes it. */
export function colour(name: string): string {
  const cached = known.get(name);
  if (cached) return cached;
  if (!probe) {
    probe = document.createElement('span');
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color;
  known.set(name, found);
  return found;
}

export const COLOURS = 10;
export const seriesName = (index: number): string => `series-${index % COLOURS}`;
export const seriesColour = (index: number): string => colour(seriesName(index));
/** Lines beyond the palette are dashed. */
export const seriesDash = (index: number): number[] => (index < COLOURS ? [] : [6, 3]);

/** A colour with less of it, as in a band. */
export function faded(rgb: string, opacity: number): string {
  const [red, green, blue] = rgb.match(/[\d.]+/g) ?? ['0', '0', '0'];
  return `rgba(${red}, ${green}, ${blue}, ${opacity})`;
}

// Viridis (van der Walt and Smith 2015), at nine places: even in lightness, and safe for colour-blind readers.
const VIRIDIS = [
  [68, 1, 84],
  [71, 45, 123],
  [59, 82, 139],
  [44, 114, 142],
  [33, 145, 140],
  [40, 174, 128],
  [94, 201, 98],
  [173, 220, 48],
  [253, 231, 37],
] as const;

/** Colour of a share between zero and one. */
export function heat(share: number): [number, number, number] {
  const place = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const first = Math.min(Math.floor(place), VIRIDIS.length - 2);
  const part = place - first;
  const [one, other] = [VIRIDIS[first]!, VIRIDIS[first + 1]!];
  return [0, 1, 2].map((index) => Math.round(one[index]! + (other[index]! - one[index]!) * part)) as [
    number,
    number,
    number,
  ];
}
