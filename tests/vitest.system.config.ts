import { defineConfig } from 'vitest/config'
import main, { SYSTEM } from './vitest.config.ts'

/** Processes, proxies, poolers, the cluster, floods, faults, and the upgrade. */
export default defineConfig({
  ...main,
  test: {
    ...main.test,
    include: [SYSTEM],
    exclude: [],
    globalSetup: ['support/debian-packages.ts', ...[main.test?.globalSetup ?? []].flat()],
    testTimeout: 1_800_000,
  },
})
