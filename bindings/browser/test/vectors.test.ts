// The vectors of `testdata` in WebAssembly: in Node.js, and in Chromium.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Browser } from './browser';
import { Gate } from './gate';

const FOLDER = process.env.TIDEGATE_VECTORS ?? '';
const LINES = readFileSync(join(import.meta.dirname, '../../../testdata/device-reports-1.jsonl'), 'utf8');
const COUNT = LINES.trimEnd().split('\n').length;

interface Vectors {
  default(options: unknown): Promise<unknown>;
  checkVectors(lines: string): number;
  perturb(oracle: string, domain: number, epsilon: string, count: number): number;
}

let browser: Browser;
let gate: Gate;

beforeAll(async () => {
  gate = await Gate.start('', () => 1);
  browser = await Browser.start();
});

afterAll(async () => {
  await browser?.stop();
  gate?.stop();
});

test('Node.js computes every vector', async () => {
  const module = (await import(pathToFileURL(join(FOLDER, 'tidegate.js')).href)) as Vectors;
  await module.default({ module_or_path: readFileSync(join(FOLDER, 'tidegate_bg.wasm')) });
  expect(COUNT).toBeGreaterThan(30);
  expect(module.checkVectors(LINES)).toBe(COUNT);
  const digit = LINES.lastIndexOf('"batch":"') + 30;
  const changed = LINES.slice(0, digit) + (LINES[digit] === '0' ? '1' : '0') + LINES.slice(digit + 1);
  expect(() => module.checkVectors(changed)).toThrow(`line ${COUNT}`);
});

test('Chromium computes every vector, and perturbs fast', async () => {
  const page = await browser.page(`${gate.origin('vectors')}/test/page.html`);
  const count = await page.evaluate(async (lines) => {
    const module = (await import('/vectors/tidegate.js' as string)) as Vectors;
    await module.default({ module_or_path: '/vectors/tidegate_bg.wasm' });
    Object.assign(globalThis, { vectors: module });
    return module.checkVectors(lines);
  }, LINES);
  expect(count).toBe(COUNT);
  for (const oracle of ['grr', 'sue', 'oue', 'blh', 'olh', 'hadamard', 'subset']) {
    const each = await page.evaluate((oracle) => {
      const { vectors } = globalThis as unknown as { vectors: Vectors };
      const began = performance.now();
      vectors.perturb(oracle, 100, '1', 20_000);
      return (performance.now() - began) / 20_000;
    }, oracle);
    console.log(`${oracle}: ${(1000 / each).toFixed(0)} perturbations a second in WebAssembly`);
  }
});
