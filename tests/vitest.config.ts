import { defineConfig } from 'vitest/config'

export default defineConfig({
  cacheDir: '../node_modules/.vite',
  test: {
    root: import.meta.dirname,
    include: ['**/*.test.ts'],
    globalSetup: ['support/postgres.ts'],
    maxWorkers: '100%',
    // Files share the loaded modules; what they test lives in databases and services of their own.
    isolate: false,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
