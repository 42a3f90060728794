import { defineConfig } from 'vitest/config';

// Pages in Chromium against a real service, one file after the other: they share the machine's cores.
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
