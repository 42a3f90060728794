// Why a release is what it is, in words.

import type { ReleaseRecord, Spent, Why } from '../api/types';
import { figure, percent, whole } from './format';

const PUBLISHED: Record<string, string> = {
  first: 'There was nothing to compare with yet, so it was published.',
  watched: 'Only the small share of the budget that watches the stream was spent; the estimate takes it in.',
  reserve: 'The reserve was spent, for the estimate had become too uncertain, as after a jump.',
  reading: 'Each reading is released, with a budget of its own.',
  spent: 'Budget was spent on this release.',
};

const REPEATED: Record<string, string> = {
  absorbed: 'An earlier publication spent this timestamp’s budget in advance, so the last release is repeated.',
  no_budget: 'The window has no budget left, so the last release is repeated.',
  no_reports: 'Too few answered, so the last release is repeated.',
  forecast: 'Nothing was published: the estimate goes on.',
  held: 'Noise decided, of which nothing else may be shown.',
  allocation: 'Another timestamp of the window is expected to be worth more, so the budget is kept for it.',
  unspent: 'Nothing was spent on this release.',
};

/** What decided, in a sentence. */
export function decision(why: Why): string {
  const { reason, dissimilarity, error, every } = why;
  const compared =
    dissimilarity === undefined || error === undefined
      ? ''
      : ` (${figure(dissimilarity, 3)} against ${figure(error, 3)})`;
  switch (reason) {
    case 'changed':
      return `The stream changed by more than a publication would be wrong by${compared}, so it was published.`;
    case 'unchanged':
      return `The stream changed by no more than a publication would be wrong by${compared}: the last one is repeated.`;
    case 'schedule':
      return every === undefined || every <= 1
        ? 'Each timestamp is published, as the schedule says.'
        : `The schedule publishes once in ${whole(every)} timestamps, and this was one of them.`;
    case 'exact':
      return every === undefined
        ? 'An exact histogram was due.'
        : `An exact histogram was due, as once in ${whole(every)} timestamps.`;
    case 'between':
      return every === undefined
        ? 'The schedule publishes at another timestamp, so the last release is repeated.'
        : `The schedule publishes once in ${whole(every)} timestamps, not at this one: the last release is repeated.`;
  }
  return PUBLISHED[reason] ?? REPEATED[reason] ?? `The mechanism says: ${reason}.`;
}

export const PURPOSES: Record<string, string> = {
  measure: 'to measure the change',
  publish: 'to publish',
  reserve: 'out of the reserve',
};

export function spentText(spent: Spent, classes: string[] = []): string {
  if (spent === null) return 'nothing';
  if (typeof spent === 'string') return `ε ${figure(Number(spent))} of everybody`;
  if (Array.isArray(spent)) {
    return (
      spent.map((one) => `ε ${figure(Number(one.epsilon))} of class ${classes[one.class] ?? one.class}`).join(', ') ||
      'nothing'
    );
  }
  return `ε ${figure(Number(spent.epsilon))} of ${percent(spent.slots / 65_536, 1)} of the population`;
}

/** What an old release without an explanation shows of itself. */
export function withoutWhy(record: ReleaseRecord): string {
  switch (record.release.freshness) {
    case 'fresh':
      return 'It was published anew.';
    case 'approximated':
      return 'The last release is repeated, for the stream seemed not to change enough.';
    case 'nullified':
      return 'The last release is repeated, for its budget was spent in advance or is used up.';
  }
}
