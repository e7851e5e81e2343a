import { access, chmod, readdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { copyProject } from '../../scripts/kit/checkout.ts'
import { openFolder } from '../support/cleanup.ts'
import { createEmptyDatabase } from '../support/empty-database.ts'
import { startProgram } from '../support/program.ts'
import { MASTER_KEYS, useSharedService } from '../support/test-service.ts'

test('a command reads standard input, prints JSON, and hashes like the service (ASVS 11.4.2)', async () => {
  const { service } = await useSharedService()
  const line = 'company create --name Own --admin-email ann@own.example --json'
  const variables = { DATABASE_URL: service.url, MASTER_KEYS }
  const { child, ended } = startProgram('admin.ts', line.split(' '), variables)
  const password = 'a password of my own'
  child.stdin.end(`${password}\n`)
  const { code, stdout, stderr } = await ended
  expect([code, stderr]).toEqual([0, 'Reading the password from standard input until it closes.\n'])
  const { userId, ...person } = JSON.parse(stdout)
  expect(Object.keys(person)).toEqual(['companyId', 'handle', 'email'])
  const users = service.db.selectFrom('users').select('password_hash').where('user_id', '=', userId)
  const { password_hash } = await users.executeTakeFirstOrThrow()
  expect(password_hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  expect((await service.login({ ...person, password })).status).toBe(200)
})

const project = resolve(import.meta.dirname, '../..')
const PRODUCTION = { NODE_ENV: 'production' }
const MIGRATIONS = (await readdir(join(project, 'migrations'))).map((file) => file.replace('.ts', '')).sort()
const DATABASE_URL = await createEmptyDatabase()

/** If the tests run as root, the account of Postgres must be able to enter the folder. */
async function newDataDir(): Promise<string> {
  const folder = await openFolder()
  await chmod(folder, 0o711)
  return join(folder, 'data')
}

/** Runs `admin migrate` in a folder with only these variables, as a job before a release does. */
async function migrate(env: Record<string, string>, folder = project) {
  const { child, ended } = startProgram(join(folder, 'scripts/admin.ts'), ['migrate', '--json'], env)
  child.stdin.end()
  const { code, stdout, stderr } = await ended
  return code === 0 ? JSON.parse(stdout) : { code, stdout, stderr }
}

test('admin migrate needs only DATABASE_URL in production, and writes no files (ASVS 13.1.2)', async () => {
  const DATA_DIR = await newDataDir()
  const env = { ...PRODUCTION, DATABASE_URL }
  expect(await migrate({ ...env, DATA_DIR })).toEqual({ migrated: MIGRATIONS })
  await expect(access(DATA_DIR)).rejects.toThrow('ENOENT')
  expect(await migrate(env)).toEqual({ migrated: [] })
  expect(await migrate({ DATABASE_URL })).toEqual({ migrated: [] })
})

test('a missing DATABASE_URL is the only fault of admin migrate in production', async () => {
  expect(await migrate(PRODUCTION)).toEqual({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(
      /^Invalid configuration:\n {2}- DATABASE_URL: must be set in production, such as postgres:[^\n]+\n$/,
    ),
  })
})

test('admin migrate migrates the embedded Postgres outside production', async () => {
  const DATA_DIR = await newDataDir()
  expect(await migrate({ DATA_DIR })).toEqual({ migrated: MIGRATIONS })
  expect(await migrate({ DATA_DIR })).toEqual({ migrated: [] })
})

test('a misspelled variable in .env ends the start (ASVS 13.1.2)', async () => {
  await using cleanup = new AsyncDisposableStack()
  const folder = await copyProject(cleanup)
  const fault = '  - DATABSE_URL: is unknown. Did you mean DATABASE_URL?\n'
  // The byte order mark of some editors must not become part of the first name.
  await writeFile(join(folder, '.env'), `\uFEFFDATABSE_URL=${DATABASE_URL}\nPORTS: 1\n`)
  const line = '  - .env, line 2: must be NAME=value, such as PORT=3000\n'
  const stderr = `Invalid configuration:\n${line}${fault}`
  expect(await migrate({}, folder)).toEqual({ code: 1, stdout: '', stderr })
  const started = startProgram(join(folder, 'src/process/server.ts'), [], { PORT: 'x' })
  expect(await started.ended).toMatchObject({ code: 1, stderr: expect.stringContaining(fault) })
})
