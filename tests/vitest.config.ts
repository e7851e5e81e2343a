import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './support/longest-first.ts'

/** Needs a browser: `npm run test:pages`. */
export const PAGES = 'pages/**'
/** Needs Debian packages, or starts processes: `npm run test:system`. */
export const SYSTEM = '**/*.system.test.ts'
const CACHE = join(import.meta.dirname, '../node_modules/.vite')

/** Needs Node and npm only: `npm test`. */
export default defineConfig({
  cacheDir: CACHE,
  test: {
    root: import.meta.dirname,
    include: ['**/*.test.ts'],
    exclude: [PAGES, SYSTEM],
    // The many processes that tests start compile each module once.
    env: { NODE_COMPILE_CACHE: join(CACHE, 'node') },
    globalSetup: ['support/global-setup.ts'],
    sequence: { sequencer: LongestFirst },
    // More than cores: many tests wait for timeouts and other processes.
    maxWorkers: 2 * availableParallelism(),
    // Less work for the garbage collector.
    execArgv: ['--max-semi-space-size=64'],
    // Files share the loaded modules; what they test lives in databases and services of their own.
    isolate: false,
    // How long something may take on a busy machine is not what any test is about: hashing takes the time that
    // everything else leaves.
    testTimeout: 300_000,
    expect: { poll: { timeout: 100_000 } },
    hookTimeout: 300_000,
  },
})
