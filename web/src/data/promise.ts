// The guarantee of a stream in plain words.

import type { Spec, Stream } from '../api/types';
import { duration, figure } from './format';

export interface Promise_ {
  /** One sentence for each class, or one. */
  sentences: string[];
  neighbours: string;
  trust: string;
  /** Which reports count, where credentials decide. */
  counted: string | null;
  /** What e^epsilon means for a guess. */
  meaning: string | null;
}

const epsilonOf = (epsilon: number | string | undefined): number => Number(epsilon ?? NaN);

function period(window: number, tick: number): string {
  return window === 1 ? `one tick (${duration(tick)})` : `any ${duration(window * tick, true)} (${window} ticks)`;
}

/** The chance that a guess with even odds is right, at most, after the window's releases. */
export function surestGuess(epsilon: number): number {
  return 1 / (1 + Math.exp(-epsilon));
}

export function promiseOf(stream: Pick<Stream, 'tick' | 'spec' | 'credentials'>): Promise_ {
  const { spec, tick } = stream;
  return {
    sentences: sentencesOf(spec, tick),
    neighbours: neighboursOf(spec),
    trust: trustOf(spec),
    counted: stream.credentials
      ? 'With credentials: at most one report of each enrolled device counts for a question. Nobody else can add any.'
      : null,
    meaning: meaningOf(spec),
  };
}

function sentencesOf(spec: Spec, tick: number): string[] {
  const factor = (epsilon: number | string | undefined): string =>
    `a factor of e^${figure(epsilonOf(epsilon))} (${figure(Math.exp(epsilonOf(epsilon)), 3)})`;
  if (spec.classes?.length) {
    return spec.classes.map(
      ({ name, epsilon, window }) =>
        `Class ${name}: whatever happens in ${period(window, tick)} of one person's life changes the probability of ` +
        `anything that is published by at most ${factor(epsilon)}.`,
    );
  }
  if (spec.family === 'scalar') {
    const what =
      typeof spec.protects === 'object'
        ? `One contributor, who changes a reading by at most ${spec.protects.contributor},`
        : 'One reading, whatever it is,';
    return [`${what} changes the probability of anything that is published by at most ${factor(spec.epsilon)}.`];
  }
  if (spec.family === 'sequence') {
    const each = spec.mechanism === 'batched' ? 'batch of symbols' : 'symbol';
    const local = spec.guarantee === 'local' || spec.mechanism === 'rr' || spec.mechanism === 'oue';
    const what = local
      ? 'changes the probability of what its device sends'
      : 'is revealed by what its device sends, to somebody who knows the declared model,';
    const sentences = [`Each ${each} of one person ${what} by at most ${factor(spec.epsilon)}.`];
    if (spec.window && spec.budget !== undefined) {
      sentences.push(`In ${period(spec.window, tick)} it is at most ${factor(spec.budget)} in all.`);
    }
    return sentences;
  }
  return [
    `Whatever happens in ${period(spec.window ?? 1, tick)} of one person's life changes the probability of anything ` +
      `that is published by at most ${factor(spec.epsilon)}.`,
  ];
}

function neighboursOf(spec: Spec): string {
  switch (spec.family) {
    case 'central':
      return spec.neighbours === 'replace'
        ? 'Who takes part is public; which value somebody has is protected.'
        : 'Both are protected: whether somebody takes part, and which value somebody has.';
    case 'scalar':
      return 'When there is a reading is public; the reading is protected.';
    case 'local':
      return 'Which devices take part, and when, is public; the values are protected.';
    case 'sequence':
      return 'Which users there are, and when they have a symbol, is public; the symbols are protected.';
  }
}

function trustOf(spec: Spec): string {
  if (spec.family === 'local' || spec.family === 'sequence') {
    return 'Nobody but the user’s device sees a value: it randomises each report, and keeps to the budget itself.';
  }
  return spec.delay
    ? 'The service sees raw readings. It stores those that the delay holds back, encrypted, until they are released.'
    : 'The service sees raw values in memory until their tick is closed. It never stores them.';
}

function meaningOf(spec: Spec): string | null {
  const epsilons = spec.classes?.length
    ? spec.classes.map(({ epsilon }) => epsilonOf(epsilon))
    : [epsilonOf(spec.epsilon)];
  const largest = Math.max(...epsilons);
  if (!Number.isFinite(largest) || spec.family === 'sequence') return null;
  const share = new Intl.NumberFormat(undefined, { style: 'percent', maximumSignificantDigits: 3 });
  const chance = surestGuess(largest);
  const shown = chance > 0.999 ? `more than ${share.format(0.999)}` : share.format(chance);
  return `A guess at even odds about what one person did is right with a probability of at most ${shown} afterwards.`;
}
