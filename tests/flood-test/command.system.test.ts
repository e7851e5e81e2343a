import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, inject, onTestFinished, test } from 'vitest'
import { INHERITED } from '../support/environment.ts'

const script = resolve(import.meta.dirname, '../../scripts/flood-test.ts')

function start(args: string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [script, ...args], {
    env: { ...INHERITED, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exit = new Promise<number | null>((resolve) => child.on('exit', resolve))
  const ended = Promise.all([exit, text(child.stdout), text(child.stderr)]).then(
    ([code, stdout, stderr]) => ({ code, stdout, stderr }),
  )
  return { child, ended }
}

test('it floods a service of its own beside honest users, and reports what they saw', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-flood-report-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const json = join(folder, 'report.json')
  const { ended } = start(`--flood sign-ins-100 --duration 2 --json ${json}`.split(' '), {
    DATABASE_URL: inject('serverUrl'),
  })
  const { code, stdout, stderr } = await ended
  expect(stderr).not.toContain('Error')
  // What the aims say about two seconds on a busy machine decides nothing without --check.
  expect(code).toBe(0)
  expect(stdout).toMatch(/^sign-in, known network +\d+\/\d+ .* %/m)
  const { figures } = JSON.parse(await readFile(json, 'utf8'))
  const [{ idle, flooded, attack, verdicts, tables }] = figures
  for (const { kind, succeeded } of idle) expect([kind, succeeded > 0]).toEqual([kind, true])
  expect(flooded).toHaveLength(idle.length)
  expect(attack['sent']).toBeGreaterThan(100)
  expect(Object.keys(attack)).toEqual(expect.arrayContaining([expect.stringMatching(/^(401|429|503)$/)]))
  expect(verdicts.length).toBeGreaterThan(2)
  expect(tables.honest.map(({ table }: { table: string }) => table)).toContain('sessions')
})

test.each([
  ['--flood rain', 'there is no flood rain'],
  ['--duration 0', '--duration must be a number above 0 and up to 3600, not 0'],
  ['--service /nowhere', '--service must be a checkout of the project'],
  ['--speed 3', "Unknown option '--speed'"],
])('%s is refused with a sentence', async (line, sentence) => {
  const { code, stderr } = await start(line.split(' ')).ended
  expect(code).toBe(1)
  expect(stderr).toContain(sentence)
  expect(stderr).not.toContain('    at ')
})

test('Ctrl-C ends the flood and what it has started, and fails a check', async () => {
  const { child, ended } = start('--flood sign-ins-1 --duration 600 --check'.split(' '), {
    DATABASE_URL: inject('serverUrl'),
  })
  child.stderr.on('data', (line) => {
    if (String(line).includes('the honest load alone')) child.kill('SIGINT')
  })
  const { code, stdout } = await ended
  expect(code).toBe(1)
  expect(stdout).toContain('Ended early')
  expect(stdout).not.toContain('All aims were met')
})

test('the help names every flood', async () => {
  const { code, stdout } = await start(['--help']).ended
  expect(code).toBe(0)
  for (const name of ['signatures-1', 'sign-ins-ipv6', 'bodies-huge']) expect(stdout).toContain(name)
})
