import { spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { startProgram } from '../support/program.ts'
import { MASTER_KEYS, useSharedService } from '../support/test-service.ts'

const { service } = await useSharedService()
const variables = { DATABASE_URL: service.url, MASTER_KEYS }

/** Starts the command line as an operator does. */
const start = (line: string) => startProgram('admin.ts', line.split(' '), variables)
const CREATE = 'company create --name Own --admin-email ann@own.example --json'

test('a command reads standard input, prints JSON, and hashes like the service (ASVS 11.4.2)', async () => {
  const { child, ended } = start(CREATE)
  const password = 'a password of my own'
  child.stdin.end(`${password}\n`)
  const { code, stdout, stderr } = await ended
  expect([code, stderr]).toEqual([0, 'Reading the password from standard input, to its end.\n'])
  const { userId, ...person } = JSON.parse(stdout)
  const users = service.db.selectFrom('users').select('password_hash').where('user_id', '=', userId)
  const { password_hash } = await users.executeTakeFirstOrThrow()
  expect(password_hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  expect((await service.login({ ...person, password })).status).toBe(200)
})

test('a failed command exits with 1, and explains on standard error only', async () => {
  const { child, ended } = start('company show --json')
  child.stdin.end()
  const stderr =
    '"company show" takes one company, by handle or id\n`npm run admin -- --help` lists the commands.\n'
  expect(await ended).toEqual({ code: 1, signal: null, stdout: '', stderr })
})

test('a command that a signal ends before its input has done nothing', async () => {
  const companies = service.db.selectFrom('companies').select('company_id')
  const before = await companies.execute()
  const { child, ended } = start(CREATE)
  child.stderr.once('data', () => child.kill('SIGINT'))
  const { signal, stdout } = await ended
  expect([stdout, signal]).toEqual(['', 'SIGINT'])
  expect(await companies.execute()).toHaveLength(before.length)
})

test('ids survive npm, which replaces them in the lines it prints', async () => {
  const { companyId, userId } = await service.addCompany()
  const line = `run admin -- user show --company ${companyId} --user ${userId}`
  const child = spawn('npm', line.split(' '), {
    cwd: resolve(import.meta.dirname, '../..'),
    env: { ...process.env, ...variables },
  })
  child.stdin.end()
  const stdout = await text(child.stdout)
  for (const id of [companyId, userId]) expect(stdout).toContain(id)
})
