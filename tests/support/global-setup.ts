import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import type { TestProject } from 'vitest/node'
import { readOpenApi } from '../../scripts/kit/openapi.ts'
import { estimate } from '../../src/crypto/password.ts'
import type { Estimate } from '../../src/crypto/password-strength-thread.ts'
import { NEW_PASSWORD, PASSWORD } from './environment.ts'
import { startPostgres } from './postgres.ts'

/** Prepares concurrently what all tests of a run share. */

declare module 'vitest' {
  interface ProvidedContext {
    /** The documents of both listeners, as JSON. */
    openapi: { api: string; platform: string }
    /** For the passwords that most users have. */
    estimates: [password: string, estimate: Estimate][]
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [stopPostgres] = await Promise.all([
    startPostgres(project),
    buildPages(),
    provideOpenApi(project),
    provideEstimates(project),
  ])
  return stopPostgres
}

/** Builds as people do who start the service. */
async function buildPages(): Promise<void> {
  await promisify(execFile)(process.execPath, [resolve(import.meta.dirname, '../../scripts/build.ts')])
}

async function provideOpenApi(project: TestProject): Promise<void> {
  // The linter refuses localhost and example.com.
  project.provide('openapi', await readOpenApi({ PUBLIC_URL: 'https://auth.gatehouse.test' }))
}

/** An estimate loads dictionaries, which would take each test worker most of a second. */
async function provideEstimates(project: TestProject): Promise<void> {
  const estimateOf = async (password: string): Promise<[string, Estimate]> => [
    password,
    await estimate(password, []),
  ]
  project.provide('estimates', await Promise.all([PASSWORD, NEW_PASSWORD].map(estimateOf)))
}
