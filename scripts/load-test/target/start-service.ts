import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ServiceSettings } from '../database/operator.ts'

const START_SCRIPT = resolve(import.meta.dirname, '../../start')
const START_TIMEOUT_MS = 30_000

/** Starts the service as `npm start` does, on a free port. Returns its URL and process id. */
export async function startService(
  { databaseUrl, masterKeys, publicUrl }: ServiceSettings,
  logFile: string,
  cleanup: AsyncDisposableStack,
): Promise<{ url: string; pid: number | undefined }> {
  const log = openSync(logFile, 'w')
  const service = spawn(START_SCRIPT, {
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: databaseUrl,
      MASTER_KEYS: masterKeys,
      PUBLIC_URL: publicUrl,
      // Limits are counted as in production, but never reached.
      RATE_LIMIT_SCALE: '1000000',
      PORT: '0',
      OPS_PORT: '0',
    },
    stdio: ['ignore', log, log],
    // Keeps Ctrl-C from the service: the load test itself stops it.
    detached: true,
  })
  closeSync(log)
  cleanup.defer(() => stopService(service))
  await once(service, 'spawn')
  return { url: await waitForUrl(service, logFile), pid: service.pid }
}

async function stopService(service: ChildProcess): Promise<void> {
  service.kill('SIGTERM')
  if (isRunning(service)) await once(service, 'exit')
}

/** The service logs its URL as soon as it listens. */
async function waitForUrl(service: ChildProcess, logFile: string): Promise<string> {
  const deadline = performance.now() + START_TIMEOUT_MS
  while (isRunning(service) && performance.now() < deadline) {
    await sleep(50)
    const [, url] = /"Server listening at ([^"]+)"/.exec(await readFile(logFile, 'utf8')) ?? []
    if (url) return url
  }
  service.kill('SIGKILL')
  throw new Error(`The service did not start:\n${await readFile(logFile, 'utf8')}`)
}

function isRunning({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null
}
