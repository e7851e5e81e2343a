import { defineConfig } from 'vitest/config'

export default defineConfig({
  cacheDir: '../node_modules/.vite',
  test: {
    root: import.meta.dirname,
    include: ['**/*.test.ts'],
    globalSetup: ['support/postgres.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
