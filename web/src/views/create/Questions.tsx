import type { ComponentChildren } from 'preact';
import { duration } from '../../data/format';
import { EXISTS, isOfDevices, tickSeconds, UNITS, type Faults, type Form, type Row } from '../../data/form';

const ROWS: { key: Row; label: string; hint: string }[] = [
  { key: 'user', label: 'A value of each user', hint: 'How many users have each value is released' },
  { key: 'number', label: 'One number', hint: 'A reading for each tick: a load, a sum, a count' },
  {
    key: 'symbol',
    label: 'A symbol of each user',
    hint: 'Each user’s sequence is released for itself, by the device',
  },
];

export function Questions(props: { form: Form; faults: Faults; onChange(change: Partial<Form>): void }) {
  const { form, faults, onChange } = props;
  const text = (name: keyof Form, label: string, hint: string, more: Record<string, unknown> = {}) => (
    <Answer label={label} fault={faults[name]} hint={hint}>
      {(described) => (
        <input
          name={name}
          value={String(form[name])}
          spellcheck={false}
          autocomplete="off"
          aria-invalid={faults[name] !== undefined}
          aria-describedby={described}
          onInput={(event) => onChange({ [name]: event.currentTarget.value })}
          {...more}
        />
      )}
    </Answer>
  );
  const isUsers = form.row === 'user';
  return (
    <>
      {text('name', 'Name', 'small letters, digits, _ and -', { autofocus: true })}
      <fieldset class="field">
        <legend>What comes in?</legend>
        <Choices name="row" value={form.row} options={ROWS} onChange={(row) => onChange({ row })} />
      </fieldset>
      {isUsers && (
        <fieldset class="field">
          <legend>Who may see raw values?</legend>
          <Choices
            name="trust"
            value={form.trust}
            onChange={(trust) => onChange({ trust })}
            options={[
              { key: 'device', label: 'Nobody but the user’s device', hint: 'It randomises each report' },
              {
                key: 'curator',
                label: 'This service',
                hint: 'More exact; values are in its memory until a tick ends',
              },
            ]}
          />
        </fieldset>
      )}
      {isUsers && form.trust === 'curator' && (
        <fieldset class="field">
          <legend>Is it public who takes part?</legend>
          <Choices
            name="neighbours"
            value={form.neighbours}
            onChange={(neighbours) => onChange({ neighbours })}
            options={[
              { key: 'add_remove', label: 'No: presence is protected, too', hint: '' },
              { key: 'replace', label: 'Yes: only the value is protected', hint: '' },
            ]}
          />
        </fieldset>
      )}
      {form.row === 'number' ? (
        <>
          <div class="form">
            {text('low', 'Lowest number', 'public, never taken from data', { inputMode: 'decimal' })}
            {text('high', 'Highest number', 'public, never taken from data', { inputMode: 'decimal' })}
            {text('resolution', 'Resolution', 'distance of numbers that are told apart', {
              inputMode: 'decimal',
            })}
          </div>
          <fieldset class="field">
            <legend>What is protected?</legend>
            <Choices
              name="protects"
              value={form.protects}
              onChange={(protects) => onChange({ protects })}
              options={[
                { key: 'reading', label: 'The whole reading', hint: 'Whatever it is' },
                {
                  key: 'contributor',
                  label: 'One contributor to it',
                  hint: 'Who changes it by a limited amount',
                },
              ]}
            />
          </fieldset>
          {form.protects === 'contributor' &&
            text('contributor', 'Largest contribution', 'as you claim', { inputMode: 'decimal' })}
        </>
      ) : (
        text('domain', 'Possible values', 'names, divided by commas, or their number; public, never taken from data')
      )}
      <div class="form">
        <Answer label="A tick is" fault={faults.tick} hint={`releases every ${duration(tickSeconds(form))}`}>
          {(described) => (
            <span class="row">
              <input
                name="tick"
                inputMode="numeric"
                autocomplete="off"
                style={{ width: '5rem' }}
                value={form.tick}
                aria-invalid={faults.tick !== undefined}
                aria-describedby={described}
                onInput={(event) => onChange({ tick: event.currentTarget.value })}
              />
              <select
                aria-label="Unit of the tick"
                name="unit"
                value={form.unit}
                onChange={(event) => onChange({ unit: Number(event.currentTarget.value) })}
              >
                {UNITS.map(({ seconds, label }) => (
                  <option key={seconds} value={seconds}>
                    {label}
                  </option>
                ))}
              </select>
            </span>
          )}
        </Answer>
        {isUsers &&
          text(
            'window',
            'Window in ticks',
            `a user’s budget covers any ${duration(tickSeconds(form) * (Number(form.window) || 1), true)}`,
            { inputMode: 'numeric' },
          )}
        {form.row !== 'number' &&
          text('population', 'About how many users', 'decides how exact releases are', {
            inputMode: 'numeric',
          })}
        {text(
          'epsilon',
          'Privacy loss ε',
          isUsers ? 'of a user in any window; 1 is usual' : 'of each tick; 1 is usual',
          { inputMode: 'decimal' },
        )}
        {text('retention', 'Keep releases for', 'such as 90d; nothing for ever')}
      </div>
      {isOfDevices(form) && (
        <label class="choice">
          <input
            type="checkbox"
            name="credentials"
            checked={form.credentials}
            onChange={(event) => onChange({ credentials: event.currentTarget.checked })}
          />
          <span>
            Only enrolled devices count
            <small>Each needs a credential, from your backend; without, any ingest token can invent devices</small>
          </span>
        </label>
      )}
    </>
  );
}

function Answer(props: {
  label: string;
  hint: string;
  fault?: string | undefined;
  children(described: string): ComponentChildren;
}) {
  const id = `hint-${props.label.toLowerCase().replace(/[^a-z]+/g, '-')}`;
  return (
    <div class="field">
      <label class="field">
        <span>{props.label}</span>
        {props.children(id)}
      </label>
      <small id={id} class={props.fault ? 'bad' : ''}>
        {props.fault === EXISTS
          ? `Choose another name: ${EXISTS}`
          : props.fault
            ? `Expected: ${props.fault}`
            : props.hint}
      </small>
    </div>
  );
}

function Choices<T extends string>(props: {
  name: string;
  value: T;
  options: { key: T; label: string; hint: string }[];
  onChange(value: T): void;
}) {
  return (
    <div class="choices">
      {props.options.map(({ key, label, hint }) => (
        <label class="choice" key={key}>
          <input
            type="radio"
            name={props.name}
            value={key}
            checked={props.value === key}
            onChange={() => props.onChange(key)}
          />
          <span>
            {label}
            {hint && <small>{hint}</small>}
          </span>
        </label>
      ))}
    </div>
  );
}
