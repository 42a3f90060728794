// What a window's releases cost each person, below the releases: crosshair and range are those of the chart above.

import { useMemo } from 'preact/hooks';
import type { Stream } from '../../api/types';
import { TimePlot } from '../../charts/TimePlot';
import type { TimeChartData } from '../../charts/time';
import type { View } from '../../charts/view';
import { duration, figure } from '../../data/format';
import type { Line } from '../../data/lines';
import type { Range } from '../../data/ranges';
import { windowSums, type Series } from '../../data/series';
import { gapOf } from './model';

export interface SpentProps {
  view: View;
  all: Range;
  stream: Stream;
  series: Series;
  version: number;
  selected: number | null;
  onRange(range: Range): void;
  onPick(seconds: number): void;
}

const HEIGHT = 132;

/** Nothing for streams whose spends do not add up: of single timestamps, of classes, and of parts of the population. */
export function SpentPlot(props: SpentProps) {
  const { stream, series } = props;
  const { window = 1, epsilon, classes } = stream.spec;
  if (window <= 1 || classes || epsilon === undefined || !series.isSpentByAll) return null;
  return <Plot {...props} window={window} epsilon={Number(epsilon)} />;
}

function Plot(props: SpentProps & { window: number; epsilon: number }) {
  const { stream, series, version, window, epsilon } = props;
  // Of a window that begins before what is loaded, the sum is not known.
  const known = stream.published <= series.length ? -Infinity : series.timestamps[0]! + window - 1;
  const sums = useMemo(() => {
    const all = windowSums(series.timestamps, series.spent, window);
    return all.map((sum, place) => (series.timestamps[place]! < known ? null : sum));
  }, [series, version, window, known]);
  const data = useMemo<TimeChartData>(() => {
    const none = sums.map(() => null);
    const line: Line = {
      pick: { first: 0, last: 0 },
      label: 'spent',
      colour: 9,
      values: sums,
      low: none,
      high: none,
    };
    return {
      seconds: series.seconds,
      freshness: series.freshness,
      suspicious: series.timestamps.map(() => false),
      lines: [line],
      isStack: false,
      include: [0, epsilon],
      amount: (value) => figure(value, 3),
      tick: stream.tick,
      gap: gapOf(series, stream.tick),
      selected: props.selected,
    };
  }, [sums, epsilon, props.selected]);
  return (
    <div class="stack tight">
      <h2>
        ε spent in {duration(window * stream.tick, true)}, of {figure(epsilon)}
      </h2>
      <TimePlot
        {...props}
        data={data}
        height={HEIGHT}
        label="Budget spent in each window"
        tooltip={(place) => (
          <tr>
            <td>spent in the window</td>
            <td>{figure(sums[place], 3)}</td>
            <td class="soft">by this release {figure(series.spent[place], 3)}</td>
          </tr>
        )}
      />
    </div>
  );
}
