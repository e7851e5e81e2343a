import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach } from 'vitest'
import { INHERITED } from './environment.ts'
import { MASTER_KEYS } from './test-service.ts'

/** The service as a process of its own, on the database of a test service. */

export const SERVER = resolve(import.meta.dirname, '../../src/server.ts')

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  if (typeof address !== 'object' || !address) throw new Error('a server has a port')
  return address.port
}

type ServerProcess = ReturnType<typeof createServerProcesses>
export type Running = Awaited<ReturnType<ServerProcess['start']>>

/** Processes of one test file. Each test ends its own. */
export function createServerProcesses(databaseUrl: string) {
  const running: ChildProcess[] = []
  afterEach(() => {
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
    const [port, opsPort] = [await freePort(), await freePort()]
    const child = spawn(command, args, {
      env: {
        ...INHERITED,
        DATABASE_URL: databaseUrl,
        MASTER_KEYS,
        RATE_LIMIT_SCALE: '1000',
        // All of these tests hold for any number of workers.
        WORKERS: process.env['WORKERS'] ?? '1',
        DATA_DIR: dataDir,
        PORT: String(port),
        OPS_PORT: String(opsPort),
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
    /** Resolves once the public listener takes connections. */
    const listening = async () => {
      while (child.exitCode === null && child.signalCode === null) {
        const socket = connect(port, '127.0.0.1')
        const answer = await once(socket, 'connect').catch(() => null)
        socket.destroy()
        if (answer) return
        await sleep(50)
      }
      throw new Error(`the service ended: ${texts.join('')}`)
    }
    return {
      child,
      listening,
      exit: once(child, 'exit'),
      told,
      output: () => texts.join(''),
      address: `http://127.0.0.1:${port}`,
      ops: `http://127.0.0.1:${opsPort}`,
    }
  }

  /** Starts a process and waits until it listens. */
  async function start(env: Record<string, string> = {}) {
    const service = await launch(env)
    await service.told(/(listening at) http/)
    return service
  }
  return { launch, start }
}
