import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readdir, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { expect } from 'vitest'
import { openFolder, whenDone } from './cleanup.ts'
import { INHERITED } from './environment.ts'

/** Runs `npm start` without configuration, as in the quick start. */

const PROJECT = resolve(import.meta.dirname, '../..')
const FREE_PORTS = { PORT: '0', OPS_PORT: '0', PLATFORM_PORT: '0' }

/** A data folder that the account of the embedded Postgres can reach. */
export async function newDataDir(): Promise<string> {
  const folder = await openFolder()
  whenDone(async () => {
    for (const { id } of await usersOf(folder)) process.kill(id, 'SIGKILL')
  })
  await chmod(folder, 0o711)
  return join(folder, '.data')
}

/** Runs `npm start`. With script(1) it has a terminal, whose keys are the bytes written to it. */
export function npmStart(
  dataDir: string,
  [command = '', ...args]: string[],
  variables: NodeJS.ProcessEnv = {},
) {
  const child = spawn(command, args, {
    cwd: PROJECT,
    env: { ...INHERITED, HOME: process.env['HOME'], DATA_DIR: dataDir, ...FREE_PORTS, ...variables },
    stdio: ['pipe', 'pipe', 'inherit'],
    // Its own process group, as under a terminal or a supervisor.
    detached: true,
  })
  const texts: string[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => texts.push(text))
  const output = () => texts.join('')
  const untilReady = () => expect.poll(output).toContain('export BASE=')
  return { child, exit: once(child, 'exit'), output, untilReady }
}

export async function usersOf(folder: string): Promise<{ id: number; command: string }[]> {
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
