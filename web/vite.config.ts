import { defineConfig } from 'vite';

// Names without hashes, and one file of each kind: the service embeds a constant list of files.
export default defineConfig({
  base: './',
  build: {
    outDir: process.env.TIDEGATE_WEB_OUT ?? '../crates/server/assets',
    emptyOutDir: false,
    target: 'es2022',
    sourcemap: false,
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        entryFileNames: 'app.js',
        assetFileNames: 'app[extname]',
        codeSplitting: false,
      },
    },
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  server: { proxy: { '/v1': target(), '/openapi.json': target(), '/metrics': target(), '/healthz': target() } },
});

function target(): string {
  return process.env.TIDEGATE_SERVER ?? 'http://127.0.0.1:8420';
}
