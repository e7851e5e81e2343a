import { spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { startProgram } from '../support/program.ts'
import { MASTER_KEYS, useSharedService } from '../support/test-service.ts'

const { service } = await useSharedService()
const variables = { DATABASE_URL: service.url, MASTER_KEYS }

/** Starts the command line as an operator does. */
const start = (line: string) => startProgram('admin.ts', line.split(' '), variables)

describe('the command line as a process', () => {
  const create = 'company create --name Own --admin-email ann@own.example --json'
  const companies = () => service.db.selectFrom('companies').select('company_id').execute()

  test('reads standard input, prints one JSON object, exits 0, and hashes as the service does (ASVS 11.4.2)', async () => {
    const { child, ended } = start(create)
    child.stdin.end('a password of my own\n')
    const { code, stdout, stderr } = await ended
    expect([code, stderr]).toEqual([0, 'Reading the password from standard input, to its end.\n'])
    const { companyId, userId } = JSON.parse(stdout)
    const { password_hash } = await service.db
      .selectFrom('users')
      .select('password_hash')
      .where('user_id', '=', userId)
      .executeTakeFirstOrThrow()
    expect(password_hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
    const person = { companyId, email: 'ann@own.example', password: 'a password of my own' }
    expect((await service.login(person)).status).toBe(200)
  })

  test('exits 1 when it refuses, and says why on standard error alone', async () => {
    const { child, ended } = start('company show --json')
    child.stdin.end()
    const why =
      '"company show" takes one company, by handle or id\n`npm run admin -- --help` lists the commands.\n'
    expect(await ended).toEqual({ code: 1, signal: null, stdout: '', stderr: why })
  })

  test('ends at a signal while it waits for its input, and has done nothing', async () => {
    const before = await companies()
    const { child, ended } = start(create)
    child.stderr.once('data', () => child.kill('SIGINT'))
    const { signal, stdout } = await ended
    expect([stdout, signal]).toEqual(['', 'SIGINT'])
    expect(await companies()).toHaveLength(before.length)
  })
})

test('ids survive npm, which replaces them in the command line that it repeats', async () => {
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
