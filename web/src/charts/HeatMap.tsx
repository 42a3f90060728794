import { useSignalEffect } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { moment } from '../data/format';
import { pickLabel } from '../data/lines';
import { timeTicks, type Range } from '../data/ranges';
import type { Series } from '../data/series';
import { colour, heat, palette } from '../ui/theme';
import { Frame, useWidth } from './frame';
import { heatPixels, heatScale, releaseAt } from './heat';
import { timeLabels } from './time';
import type { View } from './view';

const LEFT = 92;
const RIGHT = 14;
const TOP = 12;
const BOTTOM = 40;

export interface HeatMapProps {
  view: View;
  series: Series;
  /** Changes when releases come. */
  version: number;
  tick: number;
  all: Range;
  height: number;
  label: string;
  selected: number | null;
  amount(value: number): string;
  onRange(range: Range): void;
  onPick(seconds: number): void;
}

export function HeatMap(props: HeatMapProps) {
  const { view, series, height, tick } = props;
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(place);
  const range = view.range.value;
  const colours = palette.value;
  const inside = { width: Math.max(width - LEFT - RIGHT, 1), height: height - TOP - BOTTOM };
  const scale = heatScale(series, series.between(range.from - tick, range.to));
  const [row, setRow] = useState<number | null>(null);
  const [line, setLine] = useState<number | null>(null);

  useLayoutEffect(() => {
    const context = canvas.current?.getContext('2d');
    if (!context || width === 0) return;
    const ratio = devicePixelRatio;
    canvas.current!.width = width * ratio;
    canvas.current!.height = height * ratio;
    context.scale(ratio, ratio);
    const size = { width: Math.round(inside.width * ratio), height: Math.round(inside.height * ratio) };
    const pixels = heatPixels(series, { range, tick, scale, ...size });
    context.putImageData(
      new ImageData(pixels, size.width, size.height),
      Math.round(LEFT * ratio),
      Math.round(TOP * ratio),
    );
    drawAxes(context, props, range, width);
  }, [width, height, range, props.version, colours, series, props.selected]);

  useSignalEffect(() => {
    const at = view.cursor.value;
    const now = view.range.value;
    setLine(at === null ? null : LEFT + ((at - now.from) / (now.to - now.from)) * inside.width);
  });

  const shown = useRef({ range, inside, onRange: props.onRange, onPick: props.onPick });
  shown.current = { range, inside, onRange: props.onRange, onPick: props.onPick };
  useEffect(() => bindPointer(canvas.current!, view, shown, series, setRow), [series]);

  const at = view.cursor.value;
  const under = at === null || row === null ? -1 : releaseAt(series.seconds, at, tick);
  return (
    <Frame {...props} seconds={series.seconds}>
      <div ref={place} style={{ height: `${height}px` }}>
        <canvas ref={canvas} style={{ width: `${width}px`, height: `${height}px` }} />
      </div>
      {line !== null && line >= LEFT && line <= width - RIGHT && (
        <svg
          class="crosshair"
          width={width}
          height={height}
          aria-hidden="true"
          style={{ position: 'absolute', inset: '0', pointerEvents: 'none' }}
        >
          <line x1={line} x2={line} y1={TOP} y2={height - BOTTOM} stroke={colour('paper')} stroke-width="1" />
        </svg>
      )}
      {under >= 0 && row !== null && (
        <div
          class="tooltip"
          style={line! > width / 2 ? { right: `${width - line! + 14}px` } : { left: `${line! + 14}px` }}
        >
          <strong>{moment(series.seconds[under]!, tick)}</strong>
          <div>
            {pickLabel(series, { first: row, last: row })}: {props.amount(series.value(series.columnOf(row), under))}
          </div>
        </div>
      )}
      <HeatLegend high={`${props.amount(scale.high)}${scale.isCut ? ' and more' : ''}`} low={props.amount(0)} />
    </Frame>
  );
}

function HeatLegend(props: { low: string; high: string }) {
  const steps = 24;
  return (
    <div class="legend">
      <span>{props.low}</span>
      <svg width="144" height="12" role="img" aria-label={`Colours from ${props.low} to ${props.high}`}>
        {Array.from({ length: steps }, (_, step) => (
          <rect key={step} x={step * 6} width="6.5" height="12" fill={`rgb(${heat(step / (steps - 1)).join(',')})`} />
        ))}
      </svg>
      <span>{props.high}</span>
    </div>
  );
}

function drawAxes(context: CanvasRenderingContext2D, props: HeatMapProps, range: Range, width: number): void {
  const { series, height, tick } = props;
  const inside = { width: width - LEFT - RIGHT, height: height - TOP - BOTTOM };
  context.font = '12px system-ui, sans-serif';
  context.fillStyle = colour('soft');
  context.textBaseline = 'top';
  context.textAlign = 'center';
  const ticks = timeTicks(range.from, range.to, Math.max(2, Math.floor(inside.width / 95)));
  timeLabels(ticks, tick).forEach((label, place) => {
    const x = LEFT + ((ticks[place]! - range.from) / (range.to - range.from)) * inside.width;
    label.split('\n').forEach((part, row) => context.fillText(part, x, height - BOTTOM + 6 + row * 15));
  });
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  const each = Math.max(1, Math.ceil((series.leaves * 16) / inside.height));
  for (let value = 0; value < series.leaves; value += each) {
    const y = TOP + inside.height * (1 - (value + 0.5) / series.leaves);
    const name = series.nameOf(value);
    context.fillText(name.length > 13 ? `${name.slice(0, 12)}…` : name, LEFT - 8, y);
  }
  if (props.selected !== null) {
    const x = LEFT + ((props.selected - range.from) / (range.to - range.from)) * inside.width;
    context.strokeStyle = colour('bad');
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(x, TOP);
    context.lineTo(x, TOP + inside.height);
    context.stroke();
  }
}

interface Shown {
  range: Range;
  inside: { width: number; height: number };
  onRange(range: Range): void;
  onPick(seconds: number): void;
}

/** Crosshair, choosing by a click, and a range by dragging. */
function bindPointer(
  canvas: HTMLCanvasElement,
  view: View,
  shown: { current: Shown },
  series: Series,
  setRow: (row: number | null) => void,
): () => void {
  let begin: number | null = null;
  const timeOf = (event: PointerEvent): number => {
    const { range, inside } = shown.current;
    const x = event.clientX - canvas.getBoundingClientRect().left - LEFT;
    return range.from + Math.min(Math.max(x / inside.width, 0), 1) * (range.to - range.from);
  };
  const move = (event: PointerEvent): void => {
    view.cursor.value = timeOf(event);
    const { inside } = shown.current;
    const up = 1 - (event.clientY - canvas.getBoundingClientRect().top - TOP) / inside.height;
    setRow(up < 0 || up >= 1 ? null : Math.floor(up * series.leaves));
  };
  const leave = (): void => {
    view.cursor.value = null;
    setRow(null);
  };
  const down = (event: PointerEvent): void => void (begin = timeOf(event));
  const up = (event: PointerEvent): void => {
    if (begin === null) return;
    const end = timeOf(event);
    const { range, inside } = shown.current;
    const isClick = (Math.abs(end - begin) / (range.to - range.from)) * inside.width < 4;
    if (isClick) shown.current.onPick(end);
    else shown.current.onRange({ from: Math.min(begin, end), to: Math.max(begin, end) });
    begin = null;
  };
  const handlers = { pointermove: move, pointerleave: leave, pointerdown: down, pointerup: up };
  for (const [name, handler] of Object.entries(handlers)) canvas.addEventListener(name, handler as EventListener);
  return () => {
    for (const [name, handler] of Object.entries(handlers)) canvas.removeEventListener(name, handler as EventListener);
  };
}
