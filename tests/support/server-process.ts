import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { type afterAll, afterEach, vi } from 'vitest'
import { listenersIn } from '../../scripts/kit/service.ts'
import { openFolder } from './cleanup.ts'
import { INHERITED } from './environment.ts'
import { MASTER_KEYS } from './test-service.ts'

/** The service runs as its own process, on a test service's database. */

export const SERVER = resolve(import.meta.dirname, '../../src/process/server.ts')

/** These tests apply to any number of workers. */
const WORKERS = process.env['WORKERS'] ?? '1'

type ServerProcess = ReturnType<typeof createServerProcesses>
export type Running = Awaited<ReturnType<ServerProcess['start']>>

/** Processes that end with the test that starts them, or with all tests of the file or group. */
export function createServerProcesses(databaseUrl: string, whenOver: typeof afterAll = afterEach) {
  const running: ChildProcess[] = []
  whenOver(() => {
    for (const child of running.splice(0)) child.kill('SIGKILL')
  })
  const folder = openFolder()

  /** Starts a process with these variables without waiting for it. */
  async function launch(
    env: Record<string, string> = {},
    stdio: StdioOptions = ['ignore', 'pipe', 'pipe'],
    [command = '', ...args]: string[] = [process.execPath, SERVER],
  ) {
    const child = spawn(command, args, {
      env: {
        ...INHERITED,
        DATABASE_URL: databaseUrl,
        MASTER_KEYS,
        RATE_LIMIT_SCALE: '1000',
        WORKERS,
        DATA_DIR: await folder,
        PORT: '0',
        OPS_PORT: '0',
        PLATFORM_PORT: '0',
        ...env,
      },
      stdio,
    })
    running.push(child)
    const texts: string[] = []
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => texts.push(text))
    }
    const output = () => texts.join('')
    const hasEnded = () => (child.exitCode ?? child.signalCode) !== null
    /** Resolves once `find` returns something for the output. */
    const until = <T>(find: (output: string) => T | undefined) =>
      vi.waitUntil(
        () => {
          const found = find(output())
          if (found === undefined && hasEnded()) throw new Error(`the service ended: ${output()}`)
          return found
        },
        { timeout: 100_000 },
      )
    const told = (pattern: RegExp) => until((text) => pattern.exec(text)?.[1])
    return { child, exit: once(child, 'exit'), until, told, output }
  }

  /** Starts a process and waits until each of its workers has logged its addresses. */
  async function start(env: Record<string, string> = {}, stdio?: StdioOptions, command?: string[]) {
    const service = await launch(env, stdio, command)
    const workers = Number(env['WORKERS'] ?? WORKERS)
    const { url, opsUrl, platformUrl } = await service.until((output) => listenersIn(output, workers))
    return { ...service, address: url, platform: platformUrl, ops: opsUrl }
  }
  return { launch, start }
}
