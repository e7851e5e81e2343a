import { access, chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { copyProject } from '../../scripts/kit/checkout.ts'
import { createEmptyDatabase } from '../support/empty-database.ts'
import { startProgram } from '../support/program.ts'

/** Migrations of a release run before it, often by a job that has nothing but the database. */

const project = resolve(import.meta.dirname, '../..')
const PRODUCTION = { NODE_ENV: 'production' }
const MIGRATIONS = (await readdir(join(project, 'migrations'))).map((file) => file.replace('.ts', '')).sort()
const DATABASE_URL = await createEmptyDatabase()

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-migrate-'))
  // If we are root, the account that Postgres runs under must be able to enter the folder.
  await chmod(folder, 0o711)
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Runs `admin migrate` of a folder with nothing but these variables. */
async function migrate(env: Record<string, string>, folder = project) {
  const { child, ended } = startProgram(join(folder, 'scripts/admin.ts'), ['migrate', '--json'], env)
  child.stdin.end()
  const { code, stdout, stderr } = await ended
  return code === 0 ? JSON.parse(stdout) : { code, stdout, stderr }
}

test('admin migrate needs only DATABASE_URL in production, and writes no files (ASVS 13.1.2)', async () => {
  const DATA_DIR = join(await newFolder(), 'data')
  const env = { ...PRODUCTION, DATABASE_URL }
  expect(await migrate({ ...env, DATA_DIR })).toEqual({ migrated: MIGRATIONS })
  await expect(access(DATA_DIR)).rejects.toThrow('ENOENT')
  expect(await migrate(env)).toEqual({ migrated: [] })
  expect(await migrate({ DATABASE_URL })).toEqual({ migrated: [] })
})

test('admin migrate without DATABASE_URL in production requires only that', async () => {
  expect(await migrate(PRODUCTION)).toEqual({
    code: 1,
    stdout: '',
    stderr: 'The configuration has faults:\n  - DATABASE_URL: must be set in production\n',
  })
})

test('admin migrate migrates the embedded Postgres outside production', async () => {
  const DATA_DIR = join(await newFolder(), 'data')
  expect(await migrate({ DATA_DIR })).toEqual({ migrated: MIGRATIONS })
  expect(await migrate({ DATA_DIR })).toEqual({ migrated: [] })
})

test('a misspelt variable in the environment or in .env ends the start (ASVS 13.1.2)', async () => {
  await using cleanup = new AsyncDisposableStack()
  const folder = await copyProject(cleanup)
  const refused = (stderr: string) => ({ code: 1, stdout: '', stderr })
  const fault = '  - DATABSE_URL: is not known; did you mean DATABASE_URL?\n'
  expect(await migrate({ DATABSE_URL: DATABASE_URL }, folder)).toEqual(
    refused(`The configuration has faults:\n${fault}`),
  )
  // The byte order mark that some editors write is not a part of the first name.
  await writeFile(join(folder, '.env'), `\uFEFFDATABSE_URL=${DATABASE_URL}\nPORTS: 1\n`)
  const ignored = '  - .env, line 2: must be NAME=value\n'
  expect(await migrate({}, folder)).toEqual(refused(`The configuration has faults:\n${ignored}${fault}`))
  const started = startProgram(join(folder, 'src/server.ts'), [], { PORT: 'x' })
  expect(await started.ended).toMatchObject({ code: 1, stderr: expect.stringContaining(fault) })
})
