import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createServerProcesses } from '../support/server-process.ts'
import { MASTER_KEYS, openTestService } from '../support/test-service.ts'
import { ask, KEY_SET, workersOf } from '../workers/service.ts'

const { url, config } = await openTestService()
const processes = createServerProcesses(url)

test('secrets from files are in no process environment (ASVS 13.3.1)', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-secrets-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const [DATABASE_URL_FILE, MASTER_KEYS_FILE] = [join(folder, 'database-url'), join(folder, 'master-keys')]
  await writeFile(DATABASE_URL_FILE, `${url}\n`)
  await writeFile(MASTER_KEYS_FILE, `${MASTER_KEYS}\n`)
  const files = { DATABASE_URL: '', DATABASE_URL_FILE, MASTER_KEYS: '', MASTER_KEYS_FILE }
  const service = await processes.start({ WORKERS: '2', ...files, PUBLIC_URL: config.publicUrl })
  expect(new Set(await ask(service, KEY_SET, 10))).toEqual(new Set([200]))
  const environments = [service.child.pid ?? 0, ...workersOf(service)].map((pid) =>
    readFileSync(`/proc/${pid}/environ`, 'utf8'),
  )
  expect(environments).toHaveLength(3)
  for (const environment of environments) expect(environment).not.toMatch(/postgres:\/\/|test:/)
})
