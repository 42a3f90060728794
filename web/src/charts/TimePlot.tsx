// A chart of lines over time: uPlot in a frame, with a tooltip and movable thresholds.

import { useSignal, useSignalEffect } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import type uPlot from 'uplot';
import { moment } from '../data/format';
import type { Range } from '../data/ranges';
import { palette } from '../ui/theme';
import { Frame, useWidth } from './frame';
import { TimeChart, type TimeChartData } from './time';
import type { View } from './view';

export interface Threshold {
  key: 'start' | 'end';
  label: string;
  value: number;
  step: number;
  onChange(value: number): void;
}

export interface TimePlotProps {
  view: View;
  data: TimeChartData;
  all: Range;
  height: number;
  label: string;
  thresholds?: Threshold[];
  onRange(range: Range): void;
  onPick(seconds: number): void;
  /** Rows of the tooltip at a place. */
  tooltip(place: number): ComponentChildren;
}

/** Place of the release under the crosshair. */
export function placeAt(seconds: readonly number[], at: number): number {
  let [low, high] = [0, seconds.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (seconds[middle]! < at) low = middle;
    else high = middle;
  }
  return Math.abs((seconds[low] ?? 0) - at) <= Math.abs((seconds[high] ?? 0) - at) ? low : high;
}

export function TimePlot(props: TimePlotProps) {
  const { view, data, height } = props;
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<TimeChart | null>(null);
  const width = useWidth(place);
  const plot = useSignal<{ chart: uPlot; version: number } | null>(null);
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    chart.current = new TimeChart(place.current!, {
      range: (range) => latest.current.onRange(range),
      cursor: (seconds) => (view.cursor.value = seconds),
      pick: (seconds) => latest.current.onPick(seconds),
      drawn: (drawn) => queueMicrotask(() => (plot.value = { chart: drawn, version: (plot.peek()?.version ?? 0) + 1 })),
    });
    return () => chart.current?.destroy();
  }, []);

  const range = view.range.value;
  const colours = palette.value;
  useLayoutEffect(() => {
    if (width === 0) return;
    chart.current?.show(data, range, { width, height });
    chart.current?.cursorAt(view.cursor.peek());
  }, [data, range, width, height]);
  useEffect(() => chart.current?.redraw(), [colours]);
  useSignalEffect(() => chart.current?.cursorAt(view.cursor.value));

  return (
    <Frame {...props} seconds={data.seconds}>
      <div ref={place} style={{ height: `${height}px` }} />
      {plot.value && <Tooltip view={view} data={data} chart={plot.value.chart} rows={props.tooltip} />}
      {plot.value &&
        props.thresholds?.map((one) => (
          <ThresholdLine key={one.key} threshold={one} chart={plot.value!.chart} version={plot.value!.version} />
        ))}
    </Frame>
  );
}

function Tooltip(props: { view: View; data: TimeChartData; chart: uPlot; rows(place: number): ComponentChildren }) {
  const { data, chart } = props;
  const at = props.view.cursor.value;
  if (at === null || !data.seconds.length) return null;
  const place = placeAt(data.seconds, at);
  const seconds = data.seconds[place]!;
  const inside = chart.over.clientWidth;
  const left = chart.valToPos(seconds, 'x');
  if (left < 0 || left > inside) return null;
  const edge = chart.over.offsetLeft;
  const side = left > inside / 2 ? { right: `${inside - left + 28}px` } : { left: `${edge + left + 14}px` };
  return (
    <div class="tooltip" style={side}>
      <strong>{moment(seconds, data.tick)}</strong>
      <table role="presentation">
        <tbody>{props.rows(place)}</tbody>
      </table>
    </div>
  );
}

function ThresholdLine(props: { threshold: Threshold; chart: uPlot; version: number }) {
  const { threshold, chart } = props;
  const { min, max } = chart.scales.y ?? {};
  if (min == null || max == null) return null;
  const top = chart.over.offsetTop + chart.valToPos(threshold.value, 'y');
  const rounded = (value: number): number =>
    Number((Math.round(value / threshold.step) * threshold.step).toPrecision(10));

  const press = (event: PointerEvent): void => {
    const handle = event.currentTarget as HTMLElement;
    handle.setPointerCapture(event.pointerId);
    handle.focus();
    event.preventDefault();
  };
  const move = (event: PointerEvent): void => {
    const handle = event.currentTarget as HTMLElement;
    if (!handle.hasPointerCapture(event.pointerId)) return;
    const y = event.clientY - chart.over.getBoundingClientRect().top;
    threshold.onChange(rounded(chart.posToVal(Math.min(Math.max(y, 0), chart.over.clientHeight), 'y')));
  };
  const key = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 };
    const by = steps[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    threshold.onChange(rounded(threshold.value + by * threshold.step));
  };
  return (
    <div
      class={`threshold ${threshold.key}`}
      style={{ top: `${top}px`, left: `${chart.over.offsetLeft}px` }}
      role="slider"
      tabIndex={0}
      aria-orientation="vertical"
      aria-label={threshold.label}
      aria-valuenow={threshold.value}
      aria-valuemin={Math.min(min, threshold.value)}
      aria-valuemax={Math.max(max, threshold.value)}
      onPointerDown={press}
      onPointerMove={move}
      onKeyDown={key}
    >
      <span>{threshold.label}</span>
    </div>
  );
}
