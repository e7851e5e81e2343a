import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './support/longest-first.ts'

/** Needs a browser: `npm run test:pages`. */
export const PAGES = 'pages/**'
/** Needs Debian packages, or starts processes: `npm run test:system`. */
export const SYSTEM = '**/*.system.test.ts'
const CACHE = join(import.meta.dirname, '../node_modules/.vite')

/** Needs only Node and npm: `npm test`. */
export default defineConfig({
  cacheDir: CACHE,
  test: {
    root: import.meta.dirname,
    include: ['**/*.test.ts'],
    exclude: [PAGES, SYSTEM],
    // Tests start many processes. With this, each module is compiled once.
    env: { NODE_COMPILE_CACHE: join(CACHE, 'node') },
    globalSetup: ['support/global-setup.ts'],
    sequence: { sequencer: LongestFirst },
    // More workers than cores, because many tests wait for timeouts and other processes.
    maxWorkers: 2 * availableParallelism(),
    // This reduces garbage collection.
    execArgv: ['--max-semi-space-size=64'],
    // Files can share loaded modules, because their state is in their own databases and services.
    isolate: false,
    // Tests do not measure duration, and on a busy machine hashing only gets the time that everything else leaves.
    testTimeout: 300_000,
    expect: { poll: { timeout: 100_000 } },
    hookTimeout: 300_000,
  },
})
