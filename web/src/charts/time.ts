// Lines over time with their bands, by uPlot.

import uPlot from 'uplot';
import { clockTime, dayAndMonth, monthAndYear } from '../data/format';
import { stacked, type Line } from '../data/lines';
import { numberTicks, timeTicks, type Range } from '../data/ranges';
import { colour, faded, seriesColour, seriesDash } from '../ui/theme';

export interface TimeChartData {
  seconds: number[];
  /** 0 fresh, 1 approximated, 2 nullified. */
  freshness: number[];
  suspicious: boolean[];
  lines: Line[];
  isStack: boolean;
  /** Numbers that must be in view. */
  include: number[];
  amount(value: number): string;
  tick: number;
  /** Room between releases that makes a gap, in seconds. */
  gap: number;
  selected: number | null;
}

export interface TimeChartEvents {
  range(range: Range): void;
  cursor(seconds: number | null): void;
  pick(seconds: number): void;
  drawn(chart: uPlot): void;
}

export const RUG = 12;

/** Labels of an axis of time: the day where it changes, else the time. */
export function timeLabels(splits: number[], tick: number): string[] {
  const step = (splits[1] ?? 0) - (splits[0] ?? 0);
  return splits.map((seconds, place) => {
    if (step >= 2_592_000) return monthAndYear(seconds);
    if (step >= 86_400) return dayAndMonth(seconds);
    const day = new Date(seconds * 1000).toDateString();
    const before = place > 0 ? new Date(splits[place - 1]! * 1000).toDateString() : null;
    const time = clockTime(seconds, Math.min(tick, step));
    return before !== null && before !== day ? `${dayAndMonth(seconds)}\n${time}` : time;
  });
}

/** Columns of uPlot: times, and for each line its number and, unless stacked, both ends of its interval. */
export function columnsOf(data: TimeChartData): uPlot.AlignedData {
  if (!data.isStack) {
    const columns = data.lines.flatMap((line) => [line.values, line.low, line.high]);
    return [data.seconds, ...columns];
  }
  return [data.seconds, ...stacked(data.lines)];
}

/** Bands that overlap must leave the lines legible. */
export const bandOpacity = (lines: number): number => (lines < 3 ? 0.18 : lines < 5 ? 0.11 : 0.07);

function rangeOf(data: TimeChartData): uPlot.Range.Function {
  return (_, low, high) => {
    const numbers = [low, high, ...data.include].filter((one) => Number.isFinite(one));
    if (!numbers.length) return [0, 1];
    const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
    const room = (most - least || Math.abs(most) || 1) * 0.06;
    return [least >= 0 && least - room < (most - least) * 0.35 ? 0 : least - room, most + room];
  };
}

function axes(data: TimeChartData): uPlot.Axis[] {
  const style = {
    stroke: () => colour('soft'),
    grid: { stroke: () => colour('line'), width: 1 },
    ticks: { stroke: () => colour('line'), width: 1, size: 4 },
    font: '12px system-ui, sans-serif',
  };
  return [
    {
      ...style,
      size: 38 + RUG,
      gap: RUG + 3,
      splits: (chart, _, from, to) => timeTicks(from, to, Math.max(2, Math.floor(chart.width / 95))),
      values: (_, splits) => timeLabels(splits, data.tick),
    },
    {
      ...style,
      size: 62,
      splits: (chart, _, low, high) => numberTicks(low, high, Math.max(2, Math.floor(chart.height / 52))),
      values: (_, splits) => splits.map((value) => data.amount(value)),
    },
  ];
}

function series(data: TimeChartData): { series: uPlot.Series[]; bands: uPlot.Band[] } {
  const all: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  const gaps: uPlot.Series.GapsRefiner = (chart, _, first, last, found) => {
    const times = chart.data[0];
    for (let place = Math.max(first, 1); place <= last; place++) {
      const [before, at] = [times[place - 1]!, times[place]!];
      if (at - before <= data.gap) continue;
      found.push([Math.round(chart.valToPos(before, 'x', true)), Math.round(chart.valToPos(at, 'x', true))]);
    }
    return found.sort((one, other) => one[0] - other[0]);
  };
  const points = { show: false };
  for (const line of data.lines) {
    const stroke = () => seriesColour(line.colour);
    const own: uPlot.Series = {
      label: line.label,
      stroke,
      width: 1.75,
      dash: seriesDash(line.colour),
      points,
      gaps,
    };
    all.push(own);
    const place = all.length - 1;
    if (data.isStack) {
      const fill = () => faded(seriesColour(line.colour), 0.55);
      if (place === 1) own.fill = fill;
      else bands.push({ series: [place, place - 1], fill });
    } else {
      all.push({ width: 0, points, gaps }, { width: 0, points, gaps });
      bands.push({
        series: [place + 2, place + 1],
        fill: () => faded(seriesColour(line.colour), bandOpacity(data.lines.length)),
      });
    }
  }
  return { series: all, bands };
}

/** A strip below the plot: how each release came about. */
function drawRug(chart: uPlot, data: TimeChartData): void {
  const { ctx, bbox } = chart;
  const ratio = devicePixelRatio;
  const height = (RUG - 4) * ratio;
  const top = bbox.top + bbox.height + 4 * ratio;
  const width = Math.max(1, Math.min(3 * ratio, (bbox.width / Math.max(data.seconds.length, 1)) * 0.6));
  const colours = [colour('accent'), colour('soft'), colour('bad')];
  ctx.save();
  for (let place = 0; place < data.seconds.length; place++) {
    const x = chart.valToPos(data.seconds[place]!, 'x', true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    const kind = data.freshness[place] ?? 0;
    ctx.fillStyle = colours[kind]!;
    // Heights differ too, for those who cannot tell the colours: whole, a third at the bottom, two thirds at the top.
    if (kind === 0) ctx.fillRect(x - width / 2, top, width, height);
    else if (kind === 1) ctx.fillRect(x - width / 2, top + height * 0.67, width, height * 0.33);
    else ctx.fillRect(x - width / 2, top, width, height * 0.67);
    if (data.suspicious[place]) {
      ctx.fillStyle = colour('warn');
      ctx.beginPath();
      ctx.moveTo(x, bbox.top + 2 * ratio);
      ctx.lineTo(x + 5 * ratio, bbox.top + 11 * ratio);
      ctx.lineTo(x - 5 * ratio, bbox.top + 11 * ratio);
      ctx.fill();
    }
  }
  ctx.restore();
}

/** Points where there is room: full for fresh, hollow for approximated, crossed for nullified releases. */
function drawPoints(chart: uPlot, data: TimeChartData): void {
  const { ctx, bbox } = chart;
  const { min = 0, max = 1 } = chart.scales.x ?? {};
  const inView = data.seconds.filter((seconds) => seconds >= min! && seconds <= max!).length;
  const ratio = devicePixelRatio;
  if (data.isStack || bbox.width / ratio / Math.max(inView, 1) < 9) return;
  const radius = 3 * ratio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineWidth = 1.5 * ratio;
  for (const line of data.lines) {
    ctx.strokeStyle = seriesColour(line.colour);
    for (let place = 0; place < data.seconds.length; place++) {
      const value = line.values[place];
      if (value == null || data.seconds[place]! < min! || data.seconds[place]! > max!) continue;
      const x = chart.valToPos(data.seconds[place]!, 'x', true);
      const y = chart.valToPos(value, 'y', true);
      ctx.beginPath();
      if (data.freshness[place] === 2) {
        ctx.moveTo(x - radius, y - radius);
        ctx.lineTo(x + radius, y + radius);
        ctx.moveTo(x + radius, y - radius);
        ctx.lineTo(x - radius, y + radius);
        ctx.stroke();
        continue;
      }
      ctx.arc(x, y, radius, 0, 2 * Math.PI);
      ctx.fillStyle = data.freshness[place] === 0 ? seriesColour(line.colour) : colour('card');
      ctx.fill();
      ctx.stroke();
    }
  }
  ctx.restore();
}

function drawSelected(chart: uPlot, data: TimeChartData): void {
  if (data.selected === null) return;
  const { ctx, bbox } = chart;
  const x = chart.valToPos(data.selected, 'x', true);
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  ctx.save();
  ctx.strokeStyle = colour('ink');
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}

/** A chart that is made anew when its lines change, and only gets numbers when they go on. */
export class TimeChart {
  private chart: uPlot | null = null;
  private shape = '';
  private data: TimeChartData | null = null;
  private range: Range = { from: 0, to: 1 };

  constructor(
    private readonly place: HTMLElement,
    private readonly events: TimeChartEvents,
  ) {}

  show(data: TimeChartData, range: Range, size: { width: number; height: number }): void {
    const lines = data.lines.map((line) => `${line.label}/${line.colour}`);
    const shape = JSON.stringify([lines, data.isStack, data.tick, data.gap]);
    this.range = range;
    if (!this.chart || shape !== this.shape) {
      this.chart?.destroy();
      this.shape = shape;
      this.data = data;
      this.chart = this.make(data, size);
    } else {
      Object.assign(this.data!, data);
      this.chart.batch(() => {
        if (this.chart!.width !== size.width || this.chart!.height !== size.height) this.chart!.setSize(size);
        this.chart!.setData(columnsOf(data), false);
        this.chart!.setScale('x', { min: range.from, max: range.to });
      });
    }
  }

  redraw(): void {
    this.chart?.redraw(false);
  }

  cursorAt(seconds: number | null): void {
    const chart = this.chart;
    if (!chart) return;
    const left = seconds === null ? -10 : chart.valToPos(seconds, 'x');
    const inside = left >= 0 && left <= chart.over.clientWidth;
    chart.setCursor({ left: inside ? left : -10, top: inside ? 0 : -10 }, false);
  }

  destroy(): void {
    this.chart?.destroy();
    this.chart = null;
  }

  private make(data: TimeChartData, size: { width: number; height: number }): uPlot {
    const { series: all, bands } = series(data);
    const held = data;
    const options: uPlot.Options = {
      ...size,
      pxAlign: false,
      padding: [12, 14, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        points: { show: !data.isStack, size: 7 },
        drag: { x: true, y: false, setScale: false },
        // Shift and drag moves the range instead.
        bind: { mousedown: (chart, _, handler) => (event) => this.pressed(chart, event, handler) },
      },
      scales: {
        x: { time: true, range: () => [this.range.from, this.range.to] },
        y: { range: rangeOf(held) },
      },
      axes: axes(held),
      series: all,
      bands,
      hooks: {
        draw: [
          (chart) => {
            drawRug(chart, held);
            drawPoints(chart, held);
            drawSelected(chart, held);
            this.events.drawn(chart);
          },
        ],
        // Not the hook of the cursor, which also runs when the chart is drawn again: keys may have moved it since.
        ready: [
          (chart) => {
            chart.over.addEventListener('mousemove', (event) => {
              this.events.cursor(chart.posToVal(event.clientX - chart.over.getBoundingClientRect().left, 'x'));
            });
            chart.over.addEventListener('mouseleave', () => this.events.cursor(null));
          },
        ],
        setSelect: [
          (chart) => {
            const { left, width } = chart.select;
            if (width < 4) return;
            const [from, to] = [chart.posToVal(left, 'x'), chart.posToVal(left + width, 'x')];
            chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            this.events.range({ from, to });
          },
        ],
      },
    };
    return new uPlot(options, columnsOf(data), this.place);
  }

  private pressed(chart: uPlot, event: MouseEvent, handler: (event: MouseEvent) => unknown): null {
    if (event.button !== 0) return null;
    const begin = event.clientX;
    const start = this.range;
    const isPan = event.shiftKey;
    if (!isPan) handler(event);
    const width = chart.over.clientWidth || 1;
    const moved = (move: MouseEvent): void => {
      if (!isPan) return;
      const shift = ((begin - move.clientX) / width) * (start.to - start.from);
      this.events.range({ from: start.from + shift, to: start.to + shift });
    };
    const released = (up: MouseEvent): void => {
      removeEventListener('mousemove', moved);
      removeEventListener('mouseup', released);
      if (Math.abs(up.clientX - begin) < 4) {
        this.events.pick(chart.posToVal(begin - chart.over.getBoundingClientRect().left, 'x'));
      }
    };
    addEventListener('mousemove', moved);
    addEventListener('mouseup', released);
    return null;
  }
}
