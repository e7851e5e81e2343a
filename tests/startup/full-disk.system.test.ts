import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { explain } from '../../src/startup.ts'
import { createServerProcesses } from '../support/server-process.ts'

/** A full disk is one sentence for the operator, not a stack. */

const run = promisify(execFile)
const { launch } = createServerProcesses('')

test.for(['1m', '20m'])('the embedded Postgres explains a full disk of %s', async (size, context) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-disk-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const mounted = run('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=711`, 'none', folder])
  if (await mounted.catch(() => true).then((failed) => failed === true)) context.skip('cannot mount a disk')
  onTestFinished(async () => void (await run('umount', [folder])))
  const service = await launch({ DATA_DIR: join(folder, '.data'), MASTER_KEYS: '' })
  expect((await service.exit)[0]).toBe(1)
  expect(service.output()).toMatch(/^[^\n]*could not be started, because the disk is full\.\n$/)
})

test('a full disk is explained by where it is', () => {
  const ofDatabase = new pg.DatabaseError(
    'could not extend file "base/1/2": No space left on device',
    1,
    'error',
  )
  ofDatabase.code = '53100'
  const ofService = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
  expect(explain(ofDatabase)).toMatch(/^The disk of the database is full: [^\n]+\.$/)
  expect(explain(ofService)).toMatch(/^The disk is full: [^\n]+\.$/)
})
