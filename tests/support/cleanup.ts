import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, onTestFinished, TestRunner } from 'vitest'

/**
 * Lets `act` run when the test has ended in which this is called, or else when all tests of the file or group have.
 * Vitest ignores `afterAll` within a test, and within `beforeAll`, where this does nothing either.
 */
export function whenDone(act: () => Promise<unknown>): void {
  if (TestRunner.getCurrentTest()) onTestFinished(async () => void (await act()))
  else afterAll(act)
}

/** An empty folder, until then. */
export async function openFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-test-'))
  whenDone(() => rm(folder, { recursive: true, force: true }))
  return folder
}
