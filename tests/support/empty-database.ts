import { randomBytes } from 'node:crypto'
import { inject } from 'vitest'
import { runStatement } from '../../scripts/kit/postgres.ts'
import { whenDone } from './cleanup.ts'
import { databaseUrl } from './postgres.ts'

/** Creates a database without tables, and drops it after the test. Returns its URL. */
export async function createEmptyDatabase(options = ''): Promise<string> {
  const serverUrl = inject('serverUrl')
  const name = `gatehouse_${randomBytes(6).toString('hex')}`
  await runStatement(serverUrl, `create database ${name} ${options}`)
  whenDone(() => runStatement(serverUrl, `drop database ${name} with (force)`))
  return databaseUrl(serverUrl, name)
}
