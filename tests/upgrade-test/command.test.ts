import { spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { INHERITED } from '../support/environment.ts'

/** The command line alone: the upgrade test itself is in `npm run test:slow`. */

const script = resolve(import.meta.dirname, '../../scripts/upgrade-test.ts')
/** Without the history of the project, as in a clone that is not deep enough. */
const WITHOUT_HISTORY = { GIT_DIR: '/nowhere' }

async function run(args: string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [script, ...args], {
    env: { ...INHERITED, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exit = new Promise<number | null>((resolve) => child.on('exit', resolve))
  const [code, stdout, stderr] = await Promise.all([exit, text(child.stdout), text(child.stderr)])
  return { code, stdout, stderr }
}

test.each([
  ['no-such-commit', 'This repository has no commit no-such-commit.'],
  ['2ca0415 2ca0415', 'Give one COMMIT.'],
  ['--speed', "Unknown option '--speed'"],
])('%s is refused with a sentence', async (line, sentence) => {
  const { code, stdout, stderr } = await run(line.split(' '), WITHOUT_HISTORY)
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toContain(sentence)
  expect(stderr).not.toContain('    at ')
})

test('the last release is skipped where the history does not have it, unless it is asked for', async () => {
  const { code, stdout } = await run([], WITHOUT_HISTORY)
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^Skipped: .*git fetch --unshallow/)])
  const [, release = ''] = /the last release, (\w+)/.exec(stdout) ?? []
  const asked = await run([release], WITHOUT_HISTORY)
  expect([asked.code, asked.stderr]).toEqual([1, `This repository has no commit ${release}.\n`])
})

test('the help says what it does', async () => {
  const { code, stdout } = await run(['--help'])
  expect(code).toBe(0)
  expect(stdout).toContain('npm run upgrade-test -- [COMMIT]')
})
