import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import type { TestProject } from 'vitest/node'
import { readOpenApi } from '../../scripts/kit/openapi.ts'
import { startPostgres } from './postgres.ts'

/** What all tests of a run share, made at the same time before the first of them. */

declare module 'vitest' {
  interface ProvidedContext {
    /** The documents of both listeners, as JSON. */
    openapi: { api: string; platform: string }
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [stopPostgres] = await Promise.all([startPostgres(project), buildPages(), provideOpenApi(project)])
  return stopPostgres
}

/** As those who start the service do. */
async function buildPages(): Promise<void> {
  await promisify(execFile)(process.execPath, [resolve(import.meta.dirname, '../../scripts/build.ts')])
}

async function provideOpenApi(project: TestProject): Promise<void> {
  // A linter refuses localhost and example.com.
  project.provide('openapi', await readOpenApi({ PUBLIC_URL: 'https://auth.gatehouse.test' }))
}
