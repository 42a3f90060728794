// A chart's place on the page: its size, and its keys.

import type { ComponentChildren, RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { clampRange, pan, zoom, type Range } from '../data/ranges';
import type { View } from './view';

/** Width of an element, kept up to date. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const shown = element.current;
    if (!shown) return;
    const read = (): void => setWidth(Math.floor(shown.clientWidth));
    const observer = new ResizeObserver(read);
    observer.observe(shown);
    read();
    return () => observer.disconnect();
  }, []);
  return width;
}

export interface FrameProps {
  view: View;
  all: Range;
  label: string;
  /** Times that the arrow keys step through. */
  seconds: number[];
  onRange(range: Range): void;
  onPick(seconds: number): void;
  children: ComponentChildren;
}

export const CHART_KEYS =
  'Arrow keys move the crosshair, with Shift the range; plus and minus zoom; Enter shows why; 0 shows all.';

function nearest(seconds: number[], at: number): number {
  let best = 0;
  for (let place = 1; place < seconds.length; place++) {
    if (Math.abs(seconds[place]! - at) < Math.abs(seconds[best]! - at)) best = place;
  }
  return best;
}

export function Frame(props: FrameProps) {
  const { view, seconds } = props;
  const element = useRef<HTMLDivElement>(null);
  const set = (range: Range): void => props.onRange(clampRange(range, props.all));

  const step = (by: number): void => {
    const { from, to } = view.range.value;
    const inView = seconds.filter((one) => one >= from && one <= to);
    if (!inView.length) return;
    const at = view.cursor.value;
    const place = at === null ? (by > 0 ? 0 : inView.length - 1) : nearest(inView, at) + by;
    view.cursor.value = inView[Math.min(Math.max(place, 0), inView.length - 1)] ?? null;
  };

  const keys = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== event.currentTarget) return;
    const range = view.range.value;
    const about = view.cursor.value ?? undefined;
    switch (event.key) {
      case 'ArrowLeft':
      case 'ArrowRight': {
        const by = event.key === 'ArrowLeft' ? -1 : 1;
        if (event.shiftKey) set(pan(range, by));
        else step(by);
        break;
      }
      case 'Home':
      case 'End':
        view.cursor.value = event.key === 'Home' ? (seconds[0] ?? null) : (seconds.at(-1) ?? null);
        break;
      case '+':
      case '=':
        set(zoom(range, 0.6, about));
        break;
      case '-':
        set(zoom(range, 1 / 0.6, about));
        break;
      case '0':
        set(props.all);
        break;
      case 'Enter':
      case ' ':
        if (about !== undefined) props.onPick(about);
        break;
      case 'Escape':
        view.cursor.value = null;
        break;
      default:
        return;
    }
    event.preventDefault();
  };

  useEffect(() => {
    const shown = element.current;
    if (!shown) return;
    const wheel = (event: WheelEvent): void => {
      const range = view.range.peek();
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (event.ctrlKey || event.metaKey)
        set(zoom(range, event.deltaY > 0 ? 1.15 : 1 / 1.15, view.cursor.peek() ?? undefined));
      else if (sideways || event.shiftKey) set(pan(range, (event.deltaX || event.deltaY) / 120));
      else return;
      event.preventDefault();
    };
    shown.addEventListener('wheel', wheel, { passive: false });
    return () => shown.removeEventListener('wheel', wheel);
  }, [props.all.from, props.all.to, props.onRange]);

  return (
    <div class="chart">
      <div
        ref={element}
        class="plot"
        tabIndex={0}
        role="application"
        aria-roledescription="chart"
        aria-label={`${props.label}. ${CHART_KEYS}`}
        onKeyDown={keys}
      >
        {props.children}
      </div>
    </div>
  );
}
