// What several charts of a page share: the range of time and the place of the crosshair.

import { signal, type Signal } from '@preact/signals';
import type { Range } from '../data/ranges';

export interface View {
  range: Signal<Range>;
  /** Time under the crosshair, in seconds. */
  cursor: Signal<number | null>;
}

export function newView(range: Range): View {
  return { range: signal(range), cursor: signal<number | null>(null) };
}
