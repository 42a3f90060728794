// Small charts in SVG: sparklines, the gauge, bars with ranges, and the history of a budget.

import { useRef } from 'preact/hooks';
import type { Numbers, Ranked } from '../api/types';
import { figure, percent } from '../data/format';
import { numberTicks } from '../data/ranges';
import { levelOf } from '../ui/parts';
import { useWidth } from './frame';

/** Points of a path, rounded: a tenth of a pixel is enough. */
export function pathOf(points: readonly (readonly [number, number])[]): string {
  return points.map(([x, y], place) => `${place ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');
}

/** A line with the band of its 95 % interval; the band is left out where the error is not stated. */
export function Sparkline(props: { values: number[]; deviations: Numbers; label: string }) {
  const { values, deviations } = props;
  const [width, height] = [120, 38];
  if (!values.length) return <svg class="spark" viewBox={`0 0 ${width} ${height}`} aria-hidden="true" />;
  const half = deviations.map((deviation) => (deviation === null ? 0 : 1.96 * deviation));
  const low = Math.min(...values.map((value, place) => value - half[place]!));
  const high = Math.max(...values.map((value, place) => value + half[place]!));
  const x = (place: number): number => (values.length > 1 ? (place / (values.length - 1)) * width : width / 2);
  const y = (value: number): number =>
    high > low ? height - 2 - ((value - low) / (high - low)) * (height - 4) : height / 2;
  const upper = values.map((value, place) => [x(place), y(value + half[place]!)] as const);
  const lower = values.map((value, place) => [x(place), y(value - half[place]!)] as const).reverse();
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={props.label}
    >
      <path class="band" d={`${pathOf([...upper, ...lower])}Z`} />
      <path class="line" d={pathOf(values.map((value, place) => [x(place), y(value)] as const))} />
    </svg>
  );
}

/** How much of a window's budget is left. */
export function Gauge(props: { left: number; label: string }) {
  const left = Math.min(Math.max(props.left, 0), 1);
  const radius = 80;
  const point = (share: number): string => {
    const angle = Math.PI * (1 - share);
    return `${(100 + radius * Math.cos(angle)).toFixed(2)} ${(100 - radius * Math.sin(angle)).toFixed(2)}`;
  };
  return (
    <svg class="gauge" viewBox="0 0 200 118" role="img" aria-label={`${percent(left)} ${props.label}`}>
      <path class="track" d={`M${point(0)}A${radius} ${radius} 0 0 1 ${point(1)}`} />
      {left > 0.002 && (
        <path class={`fill ${levelOf(left)}`} d={`M${point(0)}A${radius} ${radius} 0 0 1 ${point(left)}`} />
      )}
      <text x="100" y="92" font-size="34">
        {percent(left)}
      </text>
      <text x="100" y="112" font-size="12.5" class="label">
        {props.label}
      </text>
    </svg>
  );
}

/** Predicted errors: a bar, and a line from the lowest to the highest. A logarithmic axis, for they differ widely. */
export function RankedBars(props: { ranking: Ranked[]; chosen: string | null; unit: string }) {
  const box = useRef<HTMLDivElement>(null);
  const width = Math.max(useWidth(box), 280);
  const [left, right, row] = [128, 74, 30];
  const positive = props.ranking.flatMap(({ error, low, high }) => [error, low, high]).filter((one) => one > 0);
  const least = Math.min(...positive) / 1.6;
  const most = Math.max(...positive) * 1.1;
  const x = (error: number): number => {
    const share = Math.log(Math.max(error, least) / least) / Math.log(most / least || 2);
    return left + share * (width - left - right);
  };
  const powers = numberTicks(Math.ceil(Math.log10(least)), Math.floor(Math.log10(most)), 6).filter(Number.isInteger);
  const height = props.ranking.length * row + 34;
  return (
    <div ref={box}>
      <svg
        class="figure"
        viewBox={`0 0 ${width} ${height}`}
        height={height}
        role="img"
        aria-label={`Predicted error of ${props.ranking.length} mechanisms, best first; the table has the numbers`}
      >
        {powers.map((power) => (
          <g key={power}>
            <line class="grid" x1={x(10 ** power)} x2={x(10 ** power)} y1="0" y2={height - 28} />
            <text x={x(10 ** power)} y={height - 12} text-anchor="middle">
              {figure(10 ** power, 2)}
            </text>
          </g>
        ))}
        {props.ranking.map((one, place) => {
          const y = place * row + 6;
          const isChosen = one.mechanism === props.chosen;
          return (
            <g key={one.mechanism}>
              <text class={isChosen ? 'strong' : ''} x={left - 8} y={y + 14} text-anchor="end">
                {one.mechanism}
              </text>
              <rect
                class={isChosen ? 'bar' : 'bar other'}
                x={left}
                y={y}
                width={Math.max(x(one.error) - left, 1)}
                height="18"
                rx="2"
              />
              <path
                class="whisker"
                d={`M${x(one.low)} ${y + 9}H${x(one.high)}M${x(one.low)} ${y + 4}v10M${x(one.high)} ${y + 4}v10`}
              />
              <text class="strong" x={Math.max(x(one.high), x(one.error)) + 8} y={y + 14}>
                {figure(one.error, 2)}
              </text>
            </g>
          );
        })}
        <line class="axis" x1={left} x2={left} y1="0" y2={height - 28} />
        <text x={width - right} y={height} text-anchor="end">
          {props.unit}
        </text>
      </svg>
    </div>
  );
}

export interface Step {
  seconds: number;
  left: number;
}

/** What was left of a budget over time, and what will be left if nothing more is spent. */
export function BudgetChart(props: { history: Step[]; next: Step[]; label: string; time(seconds: number): string }) {
  const box = useRef<HTMLDivElement>(null);
  const width = Math.max(useWidth(box), 240);
  const [left, right, height] = [44, 12, 150];
  const all = [...props.history, ...props.next];
  if (!all.length)
    return (
      <div ref={box} class="soft small">
        Nothing is released yet.
      </div>
    );
  const from = all[0]!.seconds;
  const to = all.at(-1)!.seconds;
  const x = (seconds: number): number => left + ((seconds - from) / (to - from || 1)) * (width - left - right);
  const y = (share: number): number => 8 + (1 - Math.min(Math.max(share, 0), 1)) * (height - 34);
  const line = props.history.map((step) => [x(step.seconds), y(step.left)] as const);
  const last = props.history.at(-1);
  const next = [...(last ? [last] : []), ...props.next].map((step) => [x(step.seconds), y(step.left)] as const);
  const area = line.length ? `${pathOf(line)}L${line.at(-1)![0]} ${y(0)}L${line[0]![0]} ${y(0)}Z` : '';
  return (
    <div ref={box}>
      <svg class="figure" viewBox={`0 0 ${width} ${height}`} height={height} role="img" aria-label={props.label}>
        {[0, 0.5, 1].map((share) => (
          <g key={share}>
            <line class="grid" x1={left} x2={width - right} y1={y(share)} y2={y(share)} />
            <text x={left - 6} y={y(share) + 4} text-anchor="end">
              {percent(share)}
            </text>
          </g>
        ))}
        <path class="area" d={area} />
        <path class="line" d={pathOf(line)} />
        <path class="line next" d={pathOf(next)} />
        {last && (
          <line class="axis" x1={x(last.seconds)} x2={x(last.seconds)} y1={y(1)} y2={y(0)} stroke-dasharray="2 3" />
        )}
        <text x={left} y={height - 6}>
          {props.time(from)}
        </text>
        <text x={width - right} y={height - 6} text-anchor="end">
          {props.time(to)}
        </text>
      </svg>
    </div>
  );
}
