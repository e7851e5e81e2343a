import { defineConfig } from 'vitest/config'
import fast, { SLOW } from './vitest.config.ts'

/** What is slow by nature: floods and load of seconds, starts and ends again and again, long waits, axe, the upgrade. */
export default defineConfig({
  ...fast,
  test: { ...fast.test, include: [SLOW], exclude: [], testTimeout: 1_800_000 },
})
