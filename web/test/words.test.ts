import { describe, expect, it } from 'vitest';
import type { OverviewRow, Spec } from '../src/api/types';
import { compare, isLate, matches, needsAttention } from '../src/data/filter';
import { measureOf } from '../src/data/advice';
import { isUncounted } from '../src/data/counted';
import { amount, duration, figure } from '../src/data/format';
import { draftOf, EMPTY, EXISTS, faultsOf, parseDomain, tickSeconds } from '../src/data/form';
import { eventsOf, monitorText, proposed, thresholdOf } from '../src/data/monitor';
import { promiseOf, surestGuess } from '../src/data/promise';
import { clampRange, numberTicks, pan, timeTicks, zoom } from '../src/data/ranges';
import { ratesOf } from '../src/data/rates';
import { sendingOf } from '../src/data/sending';
import { curlOf, declarationToml, quoted, toml } from '../src/data/toml';
import { decision, spentText } from '../src/data/why';

const spec = (more: Partial<Spec>): Spec => ({ family: 'local', mechanism: 'lpa', epsilon: '1', window: 24, ...more });

describe('the promise', () => {
  it('says the window in the units of people', () => {
    const [sentence] = promiseOf({ tick: 3600, spec: spec({}) }).sentences;
    expect(sentence).toContain('any 24 hours (24 ticks)');
    expect(sentence).toContain('a factor of e^1 (2.72)');
  });

  it('says the neighbouring relation of each family', () => {
    const told = (more: Partial<Spec>) => promiseOf({ tick: 60, spec: spec(more) });
    expect(told({ family: 'central' }).neighbours).toContain('Both are protected');
    expect(told({ family: 'central', neighbours: 'replace' }).neighbours).toContain('Who takes part is public');
    expect(told({ family: 'scalar', protects: { contributor: 3 } }).sentences[0]).toContain('at most 3');
    expect(told({ family: 'scalar', protects: 'reading' }).sentences[0]).toContain('One reading');
    expect(told({ family: 'sequence', mechanism: 'rr' }).sentences[0]).toContain('symbol');
  });

  it('says whose reports count', () => {
    expect(promiseOf({ tick: 60, spec: spec({}), credentials: true }).counted).toContain('one report of each enrolled');
    expect(promiseOf({ tick: 60, spec: spec({}) }).counted).toBeNull();
  });

  it('has a sentence for each class', () => {
    const classes = [
      { name: 'high', epsilon: '0.1', window: 60 },
      { name: 'low', epsilon: 1, window: 10 },
    ];
    const told = promiseOf({ tick: 60, spec: spec({ classes }) });
    expect(told.sentences).toHaveLength(2);
    expect(told.sentences[0]).toContain('Class high');
  });

  it('bounds the surest guess by e^epsilon over one plus that', () => {
    expect(surestGuess(0)).toBe(0.5);
    expect(surestGuess(1)).toBeCloseTo(Math.E / (1 + Math.E), 12);
  });
});

describe('numbers and times', () => {
  it('shows as many digits as matter', () => {
    expect(figure(1234.5678)).toBe('1,235');
    expect(figure(0.00123456, 3)).toBe('0.00123');
    expect(figure(null)).toBe('–');
    expect(figure(NaN)).toBe('–');
    expect(figure(1.5e12)).toBe('1.5E12');
    expect(amount(0.1234, true)).toBe('12.3%');
    expect(amount(-0.0000000001, true)).toBe('0%');
  });

  it('says lengths of time in the largest unit that has a whole number of them', () => {
    expect([60, 90, 3600, 86_400, 172_800, 604_800, 5400].map((seconds) => duration(seconds))).toEqual([
      '1 minute',
      '90 seconds',
      '1 hour',
      '1 day',
      '2 days',
      '1 week',
      '90 minutes',
    ]);
    expect([60, 3600, 86_400, 172_800].map((seconds) => duration(seconds, true))).toEqual([
      '60 seconds',
      '60 minutes',
      '24 hours',
      '2 days',
    ]);
  });

  it('has ticks at round numbers within the range', () => {
    expect(numberTicks(0, 1, 5)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(numberTicks(-3, 12, 4)).toEqual([0, 5, 10]);
    const ticks = timeTicks(1_000_000, 1_003_600, 6);
    expect(ticks.length).toBeGreaterThan(2);
    expect(ticks.every((tick) => tick >= 1_000_000 && tick <= 1_003_600 && tick % 60 === 0)).toBe(true);
    expect(timeTicks(5, 5, 6)).toEqual([]);
  });

  it('zooms about a place and comes back, and stays near what there is', () => {
    const range = { from: 100, to: 200 };
    const near = zoom(range, 0.5, 120);
    expect(near).toEqual({ from: 110, to: 160 });
    expect(zoom(near, 2, 120)).toEqual(range);
    expect(pan(range, 2)).toEqual({ from: 120, to: 220 });
    expect(zoom(range, 1e-9, 150).to - zoom(range, 1e-9, 150).from).toBe(2);
    expect(clampRange({ from: 1000, to: 1100 }, range).from).toBe(150);
  });
});

describe('declarations', () => {
  const declaration = {
    name: 'visits',
    tick: 60,
    spec: spec({ domain: ['a "b"', 'c\nd'], monitors: [{ name: 'x', direction: 'above', start: 0.5 }] }),
  };

  it('are written as TOML, with texts escaped and tables last', () => {
    expect(declarationToml({ credentials: true, ...declaration, epoch: 0, retention: { age: '9d' } })).toBe(
      '[[streams]]\nname = "visits"\ntick = 60\nepoch = 0\ncredentials = true\nretention = { age = "9d" }\n\n' +
        '[streams.spec]\nfamily = "local"\nmechanism = "lpa"\nepsilon = "1"\nwindow = 24\n' +
        'domain = ["a \\"b\\"", "c\\nd"]\n\n[[streams.spec.monitors]]\nname = "x"\ndirection = "above"\nstart = 0.5',
    );
    expect(toml({ domain: { low: 0, high: 10, missing: undefined }, 'odd key': true })).toBe(
      'domain = { low = 0, high = 10 }\n"odd key" = true',
    );
  });

  it('are quoted for a shell', () => {
    expect(quoted("it's")).toBe(`'it'\\''s'`);
    expect(curlOf({ ...declaration, name: "a'; rm -rf /" }, 'http://x', true)).toContain(`a'\\''; rm -rf /`);
    expect(curlOf(declaration, 'http://x', true)).toContain("--header 'If-None-Match: *'");
    expect(curlOf(declaration, 'http://x', false)).not.toContain('If-None-Match');
  });

  it('of the form name what is wrong', () => {
    expect(Object.keys(faultsOf(EMPTY)).sort()).toEqual(['domain', 'name', 'population']);
    const form = { ...EMPTY, name: 'visits', domain: 'home, work', population: '5000' };
    expect(faultsOf(form)).toEqual({});
    expect(faultsOf({ ...form, name: '<b>' }).name).toBeDefined();
    expect(faultsOf({ ...form, domain: 'a,a' }).domain).toBe('each name once');
    expect(faultsOf({ ...form, domain: '1' }).domain).toBe('2 to 16,777,216 values');
    expect(faultsOf({ ...form, row: 'number', low: '5', high: '5' }).high).toBeDefined();
    expect(faultsOf({ ...form, retention: '3 days' }).retention).toBeDefined();
    expect(faultsOf(form, new Set(['visits'])).name).toBe(EXISTS);
    for (const tick of ['', '0', '2.5', '-1'])
      expect(faultsOf({ ...form, tick }).tick).toBe('a whole number, 1 or more');
    expect(faultsOf({ ...form, tick: '30' })).toEqual({});
    expect(tickSeconds({ ...form, tick: '30' })).toBe(108_000);
    expect(faultsOf({ ...form, tick: '8785' }).tick).toBe('at most 366 days');
    expect(faultsOf({ ...form, epsilon: '.5' })).toEqual({});
    expect(draftOf({ ...form, epsilon: '.5' }, null).spec.epsilon).toBe(0.5);
    for (const epsilon of ['0', '1001', '1,5', '1e1']) expect(faultsOf({ ...form, epsilon }).epsilon).toContain('1000');
    expect(faultsOf({ ...form, population: '9007199254740992', window: '1000000000' })).toEqual({});
    expect(faultsOf({ ...form, population: '10000000000000000' }).population).toContain('9,007,199,254,740,992');
    expect(faultsOf({ ...form, window: '1000000001' }).window).toContain('1,000,000,000');
    expect(faultsOf({ ...form, domain: '16777217' }).domain).toContain('16,777,216');
    expect(parseDomain(' 12 ')).toBe(12);
    expect(parseDomain('a, b\nc')).toEqual(['a', 'b', 'c']);
  });

  it('of the form have the keys of the family', () => {
    const form = { ...EMPTY, name: 'visits', domain: 'home, work', population: '5000' };
    expect(draftOf(form, null)).toEqual({
      name: 'visits',
      tick: 3600,
      spec: { family: 'local', epsilon: 1, domain: ['home', 'work'], window: 24, population: 5000, every: '1h' },
    });
    expect(draftOf({ ...form, credentials: true }, null).credentials).toBe(true);
    // The answer is kept while another is tried, and does not count there.
    expect(draftOf({ ...form, credentials: true, trust: 'curator' }, null)).not.toHaveProperty('credentials');
    expect(draftOf({ ...form, trust: 'curator', neighbours: 'replace' }, 'ba').spec).toEqual({
      family: 'central',
      mechanism: 'ba',
      epsilon: 1,
      domain: ['home', 'work'],
      window: 24,
      neighbours: 'replace',
      every: '1h',
    });
    expect(
      draftOf({ ...form, row: 'number', high: '100', resolution: '0.5', protects: 'contributor' }, 'laplace').spec,
    ).toEqual({
      family: 'scalar',
      mechanism: 'laplace',
      epsilon: 1,
      domain: { low: 0, high: 100, resolution: 0.5 },
      protects: { contributor: 1 },
      every: '1h',
    });
  });
});

describe('why a release is what it is', () => {
  it('says what decided', () => {
    expect(decision({ reason: 'changed', dissimilarity: 0.0012, error: 0.0009 })).toContain(
      '(0.0012 against 0.0009), so it was published',
    );
    expect(decision({ reason: 'unchanged', dissimilarity: 1, error: 2 })).toContain('repeated');
    expect(decision({ reason: 'schedule', every: 1 })).toContain('Each timestamp');
    expect(decision({ reason: 'between', every: 20 })).toContain('once in 20');
    for (const reason of [
      'first',
      'absorbed',
      'no_budget',
      'no_reports',
      'exact',
      'watched',
      'reserve',
      'forecast',
      'reading',
      'held',
      'allocation',
      'spent',
      'unspent',
    ]) {
      expect(decision({ reason })).not.toContain('The mechanism says');
    }
    expect(decision({ reason: 'new' })).toBe('The mechanism says: new.');
  });

  it('says who spent what', () => {
    expect(spentText(null)).toBe('nothing');
    expect(spentText('0.05')).toBe('ε 0.05 of everybody');
    expect(spentText({ first_slot: 0, slots: 32_768, epsilon: '1' })).toBe('ε 1 of 50% of the population');
    expect(spentText([{ class: 1, epsilon: '0.1' }], ['high', 'low'])).toBe('ε 0.1 of class low');
  });
});

describe('monitors', () => {
  it('start and end with hysteresis', () => {
    const score = [0, 6, 5, 4.5, 6, 4, null, 7];
    expect(eventsOf(score, { direction: 'above', start: 5, end: 4 })).toEqual([
      { started: 1, ended: 5 },
      { started: 7, ended: null },
    ]);
    expect(eventsOf([1, -1, -2, 0], { direction: 'below', start: -0.5 })).toEqual([{ started: 1, ended: 3 }]);
    expect(eventsOf([5, 5], { direction: 'above', start: 5 })).toEqual([]);
  });

  it('are proposed with hysteresis', () => {
    const score = Array.from({ length: 101 }, (_, place) => place);
    expect(proposed(score, 'above')).toEqual({ direction: 'above', start: 90, end: 80 });
    expect(proposed(score, 'below')).toEqual({ direction: 'below', start: 10, end: 20 });
    expect(proposed([null, 0.5], 'above').end).toBeLessThan(0.5);
  });

  it('have no threshold in an empty field', () => {
    expect(['', ' ', '-', '1e-3', '-2.5'].map(thresholdOf)).toEqual([null, null, null, 0.001, -2.5]);
  });

  it('are told with unit and certainty', () => {
    const monitor = { name: 'x', value: 'shop', direction: 'above', start: 0.4, end: 0.3 } as const;
    expect(monitorText(monitor, 60)).toBe('share of shop above 40%, until 30%, judged by the estimate');
    expect(
      monitorText({ ...monitor, unit: 'counts', start: 40, delta: 2, confidence: 0.95, score: 'change' }, 60),
    ).toBe(
      'change of the number of users of shop, over 2 minutes above 40, until 0.3, judged by the whole 95% interval',
    );
  });
});

describe('predicted errors', () => {
  it('are roots, in users or percent', () => {
    const form = { ...EMPTY, population: '2000' };
    expect(measureOf('mse', form).of(0.0001)).toBeCloseTo(1);
    expect(measureOf('mse', form).label).toContain('percent');
    expect(measureOf('mse', { ...form, trust: 'curator' }).of(0.0001)).toBeCloseTo(20);
    expect(measureOf('mse', { ...form, row: 'number' }).of(9)).toBe(3);
    expect(measureOf('error_rate', { ...form, row: 'symbol' }).of(0.25)).toBe(25);
  });
});

describe('streams of devices', () => {
  it('have no counted report until a release is fresh', () => {
    const old = ['approximated', 'approximated'] as const;
    expect(isUncounted('local', old, [0, 0])).toBe(true);
    expect(isUncounted('local', old, [1 / 3, 1 / 3])).toBe(true);
    expect(isUncounted('local', old, [0.31, 0.31])).toBe(false);
    expect(isUncounted('local', ['approximated', 'fresh'], [0, 0])).toBe(false);
    expect(isUncounted('central', old, [0, 0])).toBe(false);
    expect(isUncounted('local', [], [])).toBe(false);
  });

  it('show how data get in', () => {
    const stream = {
      name: 'visits',
      tick: 60,
      status: 'running',
      version: 1,
      published: 0,
      open: 7,
      timestamp: 7,
    } as const;
    const rest = { driven: true, problem: null };
    const told = (more: Partial<Spec>, keys = {}) =>
      sendingOf({ ...stream, ...rest, ...keys, spec: spec({ domain: ['at home'], ...more }) }, 'http://x').command;
    expect(told({})).toContain("--value 'at home'");
    expect(told({}, { credentials: true })).toContain('--credential-file');
    expect(told({ family: 'central' })).toContain(
      'tidegate stream send visits --input events.ndjson --server http://x',
    );
    expect(told({ family: 'scalar', domain: { low: -4, high: 9 } })).toContain('--timestamp 7 --value=-4');
    expect(told({ family: 'central' }, { backfill: true, open: null })).toContain('--history history.csv');
  });
});

describe('the overview', () => {
  const row = (more: Partial<OverviewRow>): OverviewRow => ({
    name: 'visits',
    family: 'local',
    mechanism: 'lpa',
    shows: 'frequencies',
    status: 'running',
    problem: false,
    driven: true,
    tick: 60,
    timestamp: 5,
    last: null,
    lag: 0,
    budget_left: 0.5,
    alarms: null,
    ...more,
  });

  it('finds streams by name and mechanism, whatever the order of the words', () => {
    expect(matches(row({}), 'LPA vis', 'all')).toBe(true);
    expect(matches(row({}), 'local.lpa', 'all')).toBe(true);
    expect(matches(row({}), 'shop', 'all')).toBe(false);
    expect(matches(row({ status: 'paused' }), '', 'running')).toBe(false);
    expect(matches(row({ alarms: { active: 0, unacknowledged: 1 } }), '', 'alarms')).toBe(true);
    expect(matches(row({ alarms: { active: 0, unacknowledged: 0 } }), '', 'alarms')).toBe(false);
  });

  it('points at what needs somebody', () => {
    expect(needsAttention(row({}))).toBe(false);
    expect(needsAttention(row({ budget_left: 0.05 }))).toBe(true);
    expect(needsAttention(row({ problem: true }))).toBe(true);
    expect(needsAttention(row({ driven: false }))).toBe(true);
    expect(isLate(row({ lag: 121 }))).toBe(true);
    expect(isLate(row({ lag: 120 }))).toBe(false);
  });

  it('orders by budget with those that have none last', () => {
    const rows = [
      row({ name: 'a', budget_left: null }),
      row({ name: 'b', budget_left: 0.9 }),
      row({ name: 'c', budget_left: 0.1 }),
    ];
    expect(rows.sort((one, other) => compare(one, other, 'budget')).map(({ name }) => name)).toEqual(['c', 'b', 'a']);
  });
});

describe('rates', () => {
  it('come from differences, and a counter that fell began anew', () => {
    const sample = (at: number, accepted: number) => ({ at, accepted, refused: 0, releases: 0 });
    expect(ratesOf([sample(0, 100), sample(2, 120), sample(2, 120), sample(4, 6)], 'accepted')).toEqual([10, 3]);
  });
});
