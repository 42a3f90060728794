// Small parts that all views share.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { messageOf } from '../api/client';
import type { Status } from '../api/types';

export function Segments<T extends string>(props: {
  label: string;
  options: readonly { key: T; label: string; title?: string }[];
  value: T | null;
  onChange(value: T): void;
}) {
  return (
    <div class="group">
      <span aria-hidden="true">{props.label}</span>
      <div class="segments" role="group" aria-label={props.label}>
        {props.options.map(({ key, label, title }) => (
          <button
            type="button"
            key={key}
            title={title}
            aria-pressed={props.value === key}
            onClick={() => props.onChange(key)}
          >
            {label}
          </button>
        ))}
      </div>
    </div>
  );
}

export function Field(props: { label: string; hint?: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span>{props.label}</span>
      {props.children}
      {props.hint && <small>{props.hint}</small>}
    </label>
  );
}

/** A whole number from 1 on, which may be written freely; NaN while it is none. */
export function CountField(props: {
  label: string;
  hint?: string;
  most: number;
  value: number;
  onChange(value: number): void;
}) {
  const [text, setText] = useState(Number.isNaN(props.value) ? '' : String(props.value));
  const take = (written: string): void => {
    const value = /^\d+$/.test(written.trim()) ? Number(written) : NaN;
    setText(written);
    props.onChange(value >= 1 && value <= props.most ? value : NaN);
  };
  const isWrong = Number.isNaN(props.value);
  return (
    <label class="field">
      <span>{props.label}</span>
      <input
        inputMode="numeric"
        autocomplete="off"
        value={text}
        aria-invalid={isWrong}
        onInput={(event) => take(event.currentTarget.value)}
      />
      {isWrong ? (
        <small class="bad">Expected: a whole number from 1 to {props.most}</small>
      ) : (
        props.hint && <small>{props.hint}</small>
      )}
    </label>
  );
}

export function Note(props: { kind?: 'bad' | 'warn' | 'good'; children: ComponentChildren }) {
  return (
    <p class={`note ${props.kind ?? ''}`} role={props.kind === 'bad' ? 'alert' : 'status'}>
      {props.children}
    </p>
  );
}

export function Failed(props: { error: unknown; retry?: () => void; what: string }) {
  return (
    <div class="note bad row spread" role="alert">
      <span>
        {props.what}: {messageOf(props.error)}
      </span>
      {props.retry && (
        <button type="button" onClick={props.retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Empty(props: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{props.title}</h2>
      {props.children}
    </div>
  );
}

const STATUS: Record<Status, string> = { running: 'good', paused: 'warn', retired: '' };

export function StatusChip(props: { status: Status; problem?: boolean }) {
  if (props.problem) return <span class="chip bad">⚠ problem</span>;
  return <span class={`chip ${STATUS[props.status]}`}>{props.status}</span>;
}

/** How much of something is left, as a bar. */
export function Meter(props: { share: number; label: string }) {
  const share = Math.min(Math.max(props.share, 0), 1);
  return (
    <svg viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={props.label}>
      <rect class="track" width="100" height="6" />
      <rect class={`fill ${levelOf(share)}`} width={share * 100} height="6" />
    </svg>
  );
}

export function levelOf(left: number): '' | 'warn' | 'bad' {
  if (left < 0.1) return 'bad';
  return left < 0.3 ? 'warn' : '';
}

export function Dialog(props: { open: boolean; title: string; onClose(): void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const shown = dialog.current;
    if (!shown) return;
    if (props.open && !shown.open) shown.showModal();
    if (!props.open && shown.open) shown.close();
  }, [props.open]);
  return (
    <dialog ref={dialog} onClose={props.onClose} aria-label={props.title}>
      {props.open && (
        <div class="stack">
          <h2>{props.title}</h2>
          {props.children}
        </div>
      )}
    </dialog>
  );
}

export function Copyable(props: { label: string; text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(props.text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <div class="stack tight">
      <div class="row spread">
        <h3>{props.label}</h3>
        {'clipboard' in navigator && (
          <button type="button" onClick={copy} aria-label={`Copy ${props.label}`}>
            {copied ? 'Copied' : 'Copy'}
          </button>
        )}
      </div>
      <pre class="code" tabIndex={0} role="region" aria-label={props.label}>
        {props.text}
      </pre>
    </div>
  );
}

/** Saves a text or a picture as a file. */
export function save(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
