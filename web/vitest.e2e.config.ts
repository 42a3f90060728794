import { defineConfig } from 'vitest/config';

// Tests in Chromium against a real service, one after the other: they share the machine's two cores.
export default defineConfig({
  test: {
    include: ['e2e/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
