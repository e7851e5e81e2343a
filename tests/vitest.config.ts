import { defineConfig } from 'vitest/config'

export default defineConfig({
  cacheDir: '../node_modules/.vite',
  test: {
    root: import.meta.dirname,
    include: ['**/*.test.ts'],
    globalSetup: ['support/postgres.ts'],
    // More than cores: many tests wait for timeouts and other processes.
    maxWorkers: '200%',
    // Files share the loaded modules; what they test lives in databases and services of their own.
    isolate: false,
    // How long something may take on a busy machine is not what any test is about: hashing takes the time that
    // everything else leaves.
    testTimeout: 60_000,
    expect: { poll: { timeout: 25_000 } },
    hookTimeout: 60_000,
  },
})
