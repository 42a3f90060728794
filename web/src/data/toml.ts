// A declaration as TOML and as a command of curl, for people who keep it in a file.

import type { Declaration } from '../api/types';

type Json = string | number | boolean | null | undefined | Json[] | { [key: string]: Json };

const isTable = (value: Json): value is { [key: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isTables = (value: Json): value is { [key: string]: Json }[] =>
  Array.isArray(value) && value.length > 0 && value.every(isTable);

function key(name: string): string {
  return /^[A-Za-z0-9_-]+$/.test(name) ? name : text(name);
}

function text(value: string): string {
  const escaped = value.replace(/[\\"\u0000-\u001f\u007f]/g, (letter) => {
    const short: Record<string, string> = { '\\': '\\\\', '"': '\\"', '\n': '\\n', '\t': '\\t', '\r': '\\r' };
    return short[letter] ?? `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
  return `"${escaped}"`;
}

function inline(value: Json): string {
  if (typeof value === 'string') return text(value);
  if (Array.isArray(value)) return `[${value.map(inline).join(', ')}]`;
  if (isTable(value)) {
    const pairs = Object.entries(value).filter(([, inner]) => inner !== undefined && inner !== null);
    return `{ ${pairs.map(([name, inner]) => `${key(name)} = ${inline(inner)}`).join(', ')} }`;
  }
  return String(value);
}

/** TOML of an object: its plain keys, then its tables. Lists of objects are arrays of tables. */
export function toml(object: { [key: string]: Json }): string {
  const lines: string[] = [];
  const tables: string[] = [];
  for (const [name, value] of Object.entries(object)) {
    if (value === undefined || value === null) continue;
    if (isTables(value)) {
      for (const table of value) tables.push(`\n[[${key(name)}]]\n${toml(table)}`);
    } else {
      lines.push(`${key(name)} = ${inline(value)}`);
    }
  }
  return [...lines, ...tables].join('\n');
}

/** The same with the keys first that say what it is: the service orders keys by letters. */
function ordered(declaration: Declaration): Declaration {
  const { name, tick, epoch, spec, ...rest } = declaration;
  const { family, mechanism, ...keys } = spec;
  return { name, tick, ...(epoch === undefined ? {} : { epoch }), ...rest, spec: { family, mechanism, ...keys } };
}

/** A block of `service.toml`, with all keys of the declaration. */
export function declarationToml(declaration: Declaration): string {
  const { spec, ...keys } = ordered(declaration);
  const table = toml(spec as { [key: string]: Json }).replace(/^\[\[(?=[^[])/gm, '[[streams.spec.');
  return `[[streams]]\n${toml(keys as { [key: string]: Json })}\n\n[streams.spec]\n${table}`;
}

/** A word of a POSIX shell. */
export function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A request that declares a stream; a new one replaces none of its name. */
export function curlOf(declaration: Declaration, server: string, isNew: boolean): string {
  const body = JSON.stringify(ordered(declaration), null, 2);
  return [
    `curl --fail-with-body ${quoted(`${server}/v1/streams`)} \\`,
    '  --header "Authorization: Bearer $OPERATOR" \\',
    ...(isNew ? ["  --header 'If-None-Match: *' \\"] : []),
    "  --header 'Content-Type: application/json' \\",
    `  --data ${quoted(body)}`,
  ].join('\n');
}
