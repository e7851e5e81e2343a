import { afterAll, onTestFinished, TestRunner } from 'vitest'

/**
 * Lets `act` run when the test has ended in which this is called, or else when all tests of the file or group have.
 * Within a test, Vitest ignores `afterAll`.
 */
export function whenDone(act: () => Promise<unknown>): void {
  if (TestRunner.getCurrentTest()) onTestFinished(async () => void (await act()))
  else afterAll(act)
}
