import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, onTestFinished, TestRunner } from 'vitest'

/**
 * Runs `act` after the current test, or otherwise after all tests of the file or group. Vitest ignores `afterAll`
 * within a test and within `beforeAll`, so this has no effect in `beforeAll`.
 */
export function whenDone(act: () => Promise<unknown>): void {
  if (TestRunner.getCurrentTest()) onTestFinished(async () => void (await act()))
  else afterAll(act)
}

/** An empty folder, deleted at the same time. */
export async function openFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-test-'))
  whenDone(() => rm(folder, { recursive: true, force: true }))
  return folder
}
