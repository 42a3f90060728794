// Everything that the chart shows, as a table: for screen readers too.

import { useState } from 'preact/hooks';
import { figure, moment } from '../../data/format';
import type { Line } from '../../data/lines';
import type { Range } from '../../data/ranges';
import type { Series } from '../../data/series';
import { setParams } from '../../state/route';

const PAGE = 100;

export interface TableProps {
  series: Series;
  version: number;
  lines: Line[];
  range: Range;
  tick: number;
  selected: number | null;
  format(value: number): string;
}

export function ReleaseTable(props: TableProps) {
  const { series, lines, range, tick, format } = props;
  const [page, setPage] = useState(0);
  const [first, last] = series.between(range.from, range.to);
  const count = last - first;
  const pages = Math.max(Math.ceil(count / PAGE), 1);
  const shown = Math.min(page, pages - 1);
  const newest = last - 1 - shown * PAGE;
  const places = Array.from({ length: Math.min(PAGE, Math.max(newest - first + 1, 0)) }, (_, index) => newest - index);
  return (
    <div class="stack tight">
      <div class="scroll" tabIndex={0} role="region" aria-label="Releases as a table">
        <table class="releases">
          <caption class="hidden">
            Releases from {moment(range.from, tick)} to {moment(range.to, tick)}, newest first
          </caption>
          <thead>
            <tr>
              <th scope="col">Time</th>
              <th scope="col" class="number">
                Timestamp
              </th>
              <th scope="col">Freshness</th>
              <th scope="col" class="number">
                Spent ε
              </th>
              {lines.map((line) => (
                <>
                  <th scope="col" class="number" key={line.label}>
                    {line.label}
                  </th>
                  <th scope="col" class="number" key={`${line.label} interval`}>
                    interval
                  </th>
                </>
              ))}
            </tr>
          </thead>
          <tbody>
            {places.map((place) => (
              <tr key={series.timestamps[place]} aria-selected={series.timestamps[place] === props.selected}>
                <th scope="row">
                  <button
                    type="button"
                    class="plain"
                    onClick={() => setParams({ at: String(series.timestamps[place]) }, true)}
                  >
                    {moment(series.seconds[place]!, tick)}
                  </button>
                </th>
                <td class="number">{series.timestamps[place]}</td>
                <td>
                  {series.freshnessAt(place)}
                  {series.suspicious.has(series.timestamps[place]!) && ' ⚠ suspicious'}
                </td>
                <td class="number">{figure(series.spent[place])}</td>
                {lines.map((line) => (
                  <>
                    <td class="number" key={line.label}>
                      {line.values[place] == null ? '–' : format(line.values[place]!)}
                    </td>
                    <td class="number soft" key={`${line.label} interval`}>
                      {line.low[place] == null
                        ? 'not stated'
                        : `${format(line.low[place]!)} – ${format(line.high[place]!)}`}
                    </td>
                  </>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {pages > 1 && (
        <div class="row">
          <button type="button" disabled={shown === 0} onClick={() => setPage(shown - 1)}>
            Newer
          </button>
          <span class="soft small">
            {shown + 1} of {pages}
          </span>
          <button type="button" disabled={shown === pages - 1} onClick={() => setPage(shown + 1)}>
            Older
          </button>
        </div>
      )}
    </div>
  );
}
