import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, readdir, readFile } from 'node:fs/promises'
import { constants } from 'node:os'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { openFolder, whenDone } from '../support/cleanup.ts'
import { INHERITED } from '../support/environment.ts'

/** `npm start` on a machine without configuration, ended as people end it. Processes are found by /proc. */

const PROJECT = resolve(import.meta.dirname, '../..')
const FREE_PORTS = { PORT: '0', OPS_PORT: '0', PLATFORM_PORT: '0' }

/** A data folder in a place that the account of the embedded Postgres can pass. */
async function newDataDir(): Promise<string> {
  const folder = await openFolder()
  whenDone(async () => {
    for (const { id } of await usersOf(folder)) process.kill(id, 'SIGKILL')
  })
  await chmod(folder, 0o711)
  return join(folder, '.data')
}

/** Starts `npm start`; by script(1) it has a terminal, whose keys are the bytes that are written to it. */
function npmStart(dataDir: string, [command = '', ...args]: string[]) {
  const child = spawn(command, args, {
    cwd: PROJECT,
    env: { ...INHERITED, HOME: process.env['HOME'], DATA_DIR: dataDir, ...FREE_PORTS },
    stdio: ['pipe', 'pipe', 'inherit'],
    // A process group of its own, as a terminal or a supervisor gives it.
    detached: true,
  })
  const texts: string[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => texts.push(text))
  const untilReady = () => expect.poll(() => texts.join('')).toContain('export BASE=')
  return { child, exit: once(child, 'exit'), untilReady }
}

const onTerminal = (dataDir: string) => npmStart(dataDir, ['script', '-qefc', 'npm start', '/dev/null'])

async function endByCtrlC({ child, exit }: ReturnType<typeof npmStart>): Promise<void> {
  child.stdin.write('\x03')
  const [code] = await exit
  expect([0, 130]).toContain(code)
}

/** The processes that use a folder for their data. */
async function usersOf(folder: string): Promise<{ id: number; command: string }[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const processes = await Promise.all(
    ids.map(async (id) => {
      const read = (name: string) => readFile(join('/proc', id, name), 'utf8').catch(() => '')
      return { id: Number(id), command: await read('cmdline'), environment: await read('environ') }
    }),
  )
  return processes.filter(
    ({ command, environment }) => command.includes(folder) || environment.includes(`DATA_DIR=${folder}`),
  )
}

describe.runIf(process.platform === 'linux')('npm start', () => {
  test('npm start ends on Ctrl-C, twice, and leaves nothing running', async () => {
    const dataDir = await newDataDir()
    // The second start finds the data of the first.
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
    // What a start was ended in can take a moment to end itself.
    await expect.poll(() => usersOf(dataDir)).toEqual([])
  })

  test('npm start ends on SIGTERM to its process group', async () => {
    const dataDir = await newDataDir()
    const { child, exit, untilReady } = npmStart(dataDir, ['npm', 'start'])
    await untilReady()
    process.kill(-(child.pid ?? 0), 'SIGTERM')
    const [code, signal] = await exit
    expect([0, 128 + constants.signals.SIGTERM, 'SIGTERM']).toContain(code ?? signal)
    // npm can end before what it has started.
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
