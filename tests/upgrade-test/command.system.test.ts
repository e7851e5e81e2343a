import { expect, test } from 'vitest'
import { run } from './run.ts'

/** Its command line only. The upgrade test itself runs in its own file. */

/** Without the history of the project, as in a clone that is not deep enough. */
const WITHOUT_HISTORY = { GIT_DIR: '/nowhere' }

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
