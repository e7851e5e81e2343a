import { existsSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { newDataDir, npmStart, usersOf } from '../support/npm-start.ts'

/** `npm start` without configuration, stopped as people stop it. /proc shows the processes. */

const onTerminal = (dataDir: string) => npmStart(dataDir, ['script', '-qefc', 'npm start', '/dev/null'])

async function endByCtrlC({ child, exit }: ReturnType<typeof npmStart>): Promise<void> {
  child.stdin.write('\x03')
  const [code] = await exit
  expect([0, 130]).toContain(code)
}

describe.runIf(process.platform === 'linux')('npm start', () => {
  test('npm start ends on Ctrl-C, twice, and leaves nothing running', async () => {
    const dataDir = await newDataDir()
    // The second start finds the first one's data.
    for (const round of [1, 2]) {
      const start = onTerminal(dataDir)
      await start.untilReady()
      const commands = (await usersOf(dataDir)).map(({ command }) => command)
      expect(commands.join()).toContain('bin/postgres')
      await endByCtrlC(start)
      expect([round, await usersOf(dataDir)]).toEqual([round, []])
    }
  })

  const FILES = ['postgres.password', 'postgres', 'postgres/postmaster.pid']
  test.for(FILES)('a first npm start that has created %s ends on Ctrl-C', async (name) => {
    const dataDir = await newDataDir()
    const start = onTerminal(dataDir)
    await expect.poll(() => existsSync(join(dataDir, name)), { interval: 5 }).toBe(true)
    await endByCtrlC(start)
    // A process that was interrupted can take a moment to end.
    await expect.poll(() => usersOf(dataDir)).toEqual([])
  })

  test('npm start ends on SIGTERM to its process group', async () => {
    const dataDir = await newDataDir()
    const { child, exit, untilReady } = npmStart(dataDir, ['npm', 'start'])
    await untilReady()
    process.kill(-(child.pid ?? 0), 'SIGTERM')
    const [code, signal] = await exit
    expect([0, 128 + constants.signals.SIGTERM, 'SIGTERM']).toContain(code ?? signal)
    // npm can end before the processes that it started.
    await expect.poll(() => usersOf(dataDir)).toEqual([])
  })

  test('npm start leaves nothing running when its terminal is closed', async () => {
    const dataDir = await newDataDir()
    const { child, untilReady } = onTerminal(dataDir)
    await untilReady()
    child.kill('SIGKILL')
    await expect.poll(() => usersOf(dataDir)).toEqual([])
  })
})
