// Which values are shown: single ones, or a range in the order of the domain.

import { useState } from 'preact/hooks';
import { MOST_LINES, pickText, type Pick } from '../../data/lines';
import type { Series } from '../../data/series';

const MOST_SHOWN = 200;

export function ValuePicker(props: { series: Series; picks: Pick[]; onChange(text: string | null): void }) {
  const { series, picks } = props;
  const [search, setSearch] = useState('');
  const [first, setFirst] = useState(0);
  const [last, setLast] = useState(series.leaves - 1);
  const chosen = new Set(picks.map(pickText));
  const words = search.trim().toLowerCase();
  const values = Array.from({ length: series.leaves }, (_, value) => value).filter(
    (value) => words === '' || series.nameOf(value).toLowerCase().includes(words),
  );
  const set = (text: string, isOn: boolean): void => {
    const next = picks.map(pickText).filter((one) => one !== text);
    if (isOn) next.push(text);
    props.onChange(next.slice(-MOST_LINES).join(',') || null);
  };
  const option = (value: number) => (
    <option key={value} value={value}>
      {series.nameOf(value)}
    </option>
  );
  const domain = Array.from({ length: series.leaves }, (_, value) => value);
  return (
    <section class="card stack tight" aria-label="Values">
      <div class="row spread">
        <h2>Values</h2>
        <button type="button" class="plain" onClick={() => props.onChange(null)}>
          Largest
        </button>
      </div>
      {series.leaves > 12 && (
        <input
          type="search"
          aria-label="Find a value"
          placeholder="Find a value"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
      )}
      <div class="values" role="group" aria-label="Shown values">
        {values.slice(0, MOST_SHOWN).map((value) => (
          <label key={value}>
            <input
              type="checkbox"
              checked={chosen.has(String(value))}
              onChange={(event) => set(String(value), event.currentTarget.checked)}
            />
            <span>{series.nameOf(value)}</span>
          </label>
        ))}
        {values.length > MOST_SHOWN && <p class="soft small">{values.length - MOST_SHOWN} more: search for them.</p>}
      </div>
      {picks
        .filter((pick) => pick.first !== pick.last)
        .map((pick) => (
          <div class="row spread" key={pickText(pick)}>
            <span>
              {series.nameOf(pick.first)} to {series.nameOf(pick.last)}
            </span>
            <button
              type="button"
              class="plain"
              aria-label="Remove this range"
              onClick={() => set(pickText(pick), false)}
            >
              ✕
            </button>
          </div>
        ))}
      {series.leaves > 2 && (
        <details>
          <summary class="small">Add a range</summary>
          <div class="row">
            <select aria-label="From" value={first} onChange={(event) => setFirst(Number(event.currentTarget.value))}>
              {domain.map(option)}
            </select>
            <select aria-label="To" value={last} onChange={(event) => setLast(Number(event.currentTarget.value))}>
              {domain.map(option)}
            </select>
            <button type="button" disabled={first >= last} onClick={() => set(`${first}-${last}`, true)}>
              Add
            </button>
          </div>
        </details>
      )}
    </section>
  );
}
