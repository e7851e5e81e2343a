import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, afterEach } from 'vitest'
import { INHERITED } from './environment.ts'
import { MASTER_KEYS } from './test-service.ts'

/** The service as a process of its own, on the database of a test service. */

export const SERVER = resolve(import.meta.dirname, '../../src/server.ts')

type ServerProcess = ReturnType<typeof createServerProcesses>
export type Running = Awaited<ReturnType<ServerProcess['start']>>

/** Processes that end with the test that starts them, or with all tests of the file or group. */
export function createServerProcesses(databaseUrl: string, whenOver: typeof afterAll = afterEach) {
  const running: ChildProcess[] = []
  whenOver(() => {
    for (const child of running.splice(0)) child.kill('SIGKILL')
  })
  let dataDir: string | undefined
  afterAll(async () => dataDir && (await rm(dataDir, { recursive: true })))

  /** Starts a process with these variables, and does not wait for it. */
  async function launch(
    env: Record<string, string> = {},
    stdio: StdioOptions = ['ignore', 'pipe', 'pipe'],
    [command = '', ...args]: string[] = [process.execPath, SERVER],
  ) {
    dataDir ??= await mkdtemp(join(tmpdir(), 'gatehouse-server-'))
    const child = spawn(command, args, {
      env: {
        ...INHERITED,
        DATABASE_URL: databaseUrl,
        MASTER_KEYS,
        RATE_LIMIT_SCALE: '1000',
        // All of these tests hold for any number of workers.
        WORKERS: process.env['WORKERS'] ?? '1',
        DATA_DIR: dataDir,
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
    /** Resolves with the first group of the pattern, once the output has it. */
    const told = (pattern: RegExp) =>
      new Promise<string>((resolve, reject) => {
        const look = () => {
          const [, found] = pattern.exec(texts.join('')) ?? []
          if (found !== undefined) resolve(found)
        }
        look()
        for (const stream of [child.stdout, child.stderr]) stream?.on('data', look)
        child.once('exit', () => reject(new Error(`the service ended: ${texts.join('')}`)))
      })
    return { child, exit: once(child, 'exit'), told, output: () => texts.join('') }
  }

  /** Starts a process and waits until it has told where it listens. */
  async function start(...options: Parameters<typeof launch>) {
    const service = await launch(...options)
    const ops = await service.told(/"Operations listener at (http[^"]+)"/)
    const platform = await service.told(/"Platform listener at (http[^"]+)"/)
    const address = await service.told(/"Server listening at (http[^"]+)"/)
    return { ...service, address, platform, ops }
  }
  return { launch, start }
}
