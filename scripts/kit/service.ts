import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const PROJECT = resolve(import.meta.dirname, '../..')
const START_TIMEOUT_MS = 120_000
/** The service ends within ten seconds. */
const STOP_TIMEOUT_MS = 20_000

interface ServiceOptions {
  /** Without ports in them, free ports are used. */
  variables: Record<string, string>
  logFile: string
  /** The project to start; this one by default. */
  folder?: string | undefined
}

interface Listeners {
  url: string
  platformUrl: string
  opsUrl: string
}

interface Service extends Listeners {
  pid: number | undefined
}

/** Starts the service as `npm start` does. */
export async function startService(
  { variables, logFile, folder = PROJECT }: ServiceOptions,
  cleanup: AsyncDisposableStack,
): Promise<Service> {
  const log = openSync(logFile, 'w')
  const service = spawn(join(folder, 'scripts/start'), {
    env: { PATH: process.env['PATH'], PORT: '0', OPS_PORT: '0', PLATFORM_PORT: '0', ...variables },
    stdio: ['ignore', log, log],
    // Ctrl+C must not reach it: the program stops it.
    detached: true,
  })
  closeSync(log)
  cleanup.defer(() => stopService(service))
  await once(service, 'spawn')
  const workers = Number(variables['WORKERS'] ?? 1)
  return { ...(await waitForListeners(service, logFile, workers)), pid: service.pid }
}

async function stopService(service: ChildProcess): Promise<void> {
  service.kill('SIGTERM')
  const killing = setTimeout(() => service.kill('SIGKILL'), STOP_TIMEOUT_MS)
  if (isRunning(service)) await once(service, 'exit')
  clearTimeout(killing)
}

async function waitForListeners(service: ChildProcess, logFile: string, workers: number): Promise<Listeners> {
  const deadline = performance.now() + START_TIMEOUT_MS
  while (isRunning(service) && performance.now() < deadline) {
    await sleep(50)
    const listeners = listenersIn(await readFile(logFile, 'utf8'), workers)
    if (listeners) return listeners
  }
  service.kill('SIGKILL')
  throw new Error(`The service did not start:\n${await readFile(logFile, 'utf8')}`)
}

/** Undefined until every worker listens. Before that, connections would go only to the others. */
export function listenersIn(log: string, workers: number): Listeners | undefined {
  const urlsOf = (what: string) =>
    [...log.matchAll(new RegExp(`"${what} at (http[^"]+)"`, 'g'))].flatMap(([, url]) => url ?? [])
  // The last line of a start. Earlier releases have no platform listener.
  const url = urlsOf('Server listening')[workers - 1]
  const [opsUrl = ''] = urlsOf('Operations listener')
  const [platformUrl = ''] = urlsOf('Platform listener')
  return url === undefined ? undefined : { url, opsUrl, platformUrl }
}

function isRunning({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null
}
