import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const PROJECT = resolve(import.meta.dirname, '../..')
const START_TIMEOUT_MS = 120_000
/** The service ends by itself within ten seconds. */
const STOP_TIMEOUT_MS = 20_000

interface ServiceOptions {
  /** Its environment; the ports are free ones. */
  variables: Record<string, string>
  logFile: string
  /** The project whose service it is; this one by default. */
  folder?: string | undefined
}

interface Service {
  url: string
  platformUrl: string
  opsUrl: string
  pid: number | undefined
}

/** Starts the service as `npm start` does. Returns its URLs and process id. */
export async function startService(
  { variables, logFile, folder = PROJECT }: ServiceOptions,
  cleanup: AsyncDisposableStack,
): Promise<Service> {
  const log = openSync(logFile, 'w')
  const service = spawn(join(folder, 'scripts/start'), {
    env: { PATH: process.env['PATH'], PORT: '0', OPS_PORT: '0', PLATFORM_PORT: '0', ...variables },
    stdio: ['ignore', log, log],
    // Keeps Ctrl-C from the service: the load test itself stops it.
    detached: true,
  })
  closeSync(log)
  cleanup.defer(() => stopService(service))
  await once(service, 'spawn')
  const workers = Number(variables['WORKERS'] ?? 1)
  const url = await waitForUrl(service, logFile, workers)
  const told = await readFile(logFile, 'utf8')
  const [, opsUrl = ''] = /"Operations listener at ([^"]+)"/.exec(told) ?? []
  const [, platformUrl = ''] = /"Platform listener at ([^"]+)"/.exec(told) ?? []
  return { url, platformUrl, opsUrl, pid: service.pid }
}

async function stopService(service: ChildProcess): Promise<void> {
  service.kill('SIGTERM')
  const killing = setTimeout(() => service.kill('SIGKILL'), STOP_TIMEOUT_MS)
  if (isRunning(service)) await once(service, 'exit')
  clearTimeout(killing)
}

/** Each worker logs the URL as soon as it listens. A connection that comes before goes to one of the others. */
async function waitForUrl(service: ChildProcess, logFile: string, workers: number): Promise<string> {
  const deadline = performance.now() + START_TIMEOUT_MS
  while (isRunning(service) && performance.now() < deadline) {
    await sleep(50)
    const log = await readFile(logFile, 'utf8')
    const [, url] = [...log.matchAll(/"Server listening at ([^"]+)"/g)][workers - 1] ?? []
    if (url) return url
  }
  service.kill('SIGKILL')
  throw new Error(`The service did not start:\n${await readFile(logFile, 'utf8')}`)
}

function isRunning({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null
}
