// What a query or a monitor is about: one value, or a range of values.

import type { Stream, Unit, Value } from '../../api/types';
import { namesOf, valueOf } from '../../data/domain';
import { CountField, Field } from '../../ui/parts';

export interface Subject {
  kind: 'value' | 'range' | 'top';
  first: number;
  last: number;
  top: number;
}

export const FIRST_SUBJECT: Subject = { kind: 'value', first: 0, last: 0, top: 3 };

/** The keys of a spec. */
export function subjectKeys(
  stream: Stream,
  subject: Subject,
): { value?: Value; first?: Value; last?: Value; top?: number } {
  switch (subject.kind) {
    case 'value':
      return { value: valueOf(stream.spec, subject.first) };
    case 'range':
      return {
        first: valueOf(stream.spec, subject.first),
        last: valueOf(stream.spec, Math.max(subject.last, subject.first)),
      };
    case 'top':
      return { top: subject.top };
  }
}

export function SubjectFields(props: {
  stream: Stream;
  subject: Subject;
  withTop: boolean;
  onChange(subject: Subject): void;
}) {
  const { subject, onChange } = props;
  const names = namesOf(props.stream.spec);
  const options = names.map((name, value) => (
    <option key={value} value={value}>
      {name}
    </option>
  ));
  const kinds = [
    ['value', 'One value'],
    ['range', 'A range of values'],
    ['top', 'The most frequent values'],
  ] as const;
  return (
    <>
      <Field label="About">
        <select
          value={subject.kind}
          onChange={(event) => onChange({ ...subject, kind: event.currentTarget.value as Subject['kind'] })}
        >
          {kinds
            .filter(([kind]) => kind !== 'top' || props.withTop)
            .map(([kind, label]) => (
              <option key={kind} value={kind}>
                {label}
              </option>
            ))}
        </select>
      </Field>
      {subject.kind === 'top' ? (
        <CountField
          label="How many"
          most={names.length}
          value={subject.top}
          onChange={(top) => onChange({ ...subject, top })}
        />
      ) : (
        <Field label={subject.kind === 'range' ? 'From' : 'Value'}>
          <select
            value={subject.first}
            onChange={(event) => onChange({ ...subject, first: Number(event.currentTarget.value) })}
          >
            {options}
          </select>
        </Field>
      )}
      {subject.kind === 'range' && (
        <Field label="To">
          <select
            value={Math.max(subject.last, subject.first)}
            onChange={(event) => onChange({ ...subject, last: Number(event.currentTarget.value) })}
          >
            {options}
          </select>
        </Field>
      )}
    </>
  );
}

export function UnitField(props: { unit: Unit; onChange(unit: Unit): void }) {
  return (
    <Field label="Unit">
      <select value={props.unit} onChange={(event) => props.onChange(event.currentTarget.value as Unit)}>
        <option value="frequencies">Shares of the users</option>
        <option value="counts">Numbers of users</option>
      </select>
    </Field>
  );
}
