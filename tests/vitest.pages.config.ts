import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import main, { PAGES, SYSTEM } from './vitest.config.ts'

/** Pages in the browser that npm installs. */
export default defineConfig({
  ...main,
  test: {
    ...main.test,
    include: [`${PAGES}/*.test.ts`],
    exclude: [SYSTEM],
    // Each one starts a browser.
    maxWorkers: availableParallelism() + 1,
    globalSetup: ['support/chromium.ts', ...[main.test?.globalSetup ?? []].flat()],
  },
})
