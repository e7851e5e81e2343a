import { defineConfig } from 'vitest/config'
import main, { PAGES, SYSTEM } from './vitest.config.ts'

/** Pages in the browser that npm installs. */
export default defineConfig({
  ...main,
  test: {
    ...main.test,
    include: [`${PAGES}/*.test.ts`],
    exclude: [SYSTEM],
    globalSetup: ['support/chromium.ts', ...[main.test?.globalSetup ?? []].flat()],
  },
})
