import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { userInfo } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findFreePort } from '../../src/process/listen.ts'
import { isListening, type Place } from './places.ts'

/** HAProxy with a shipped configuration. Only its environment differs from production. */

const DEPLOY = resolve(import.meta.dirname, '../../deploy')
const HOST = '127.0.0.1'
const PAUSE_MS = 20

interface Running {
  process: ChildProcess
  output(): string
}

interface RunningProxy extends Running {
  url: string
  platformUrl: string
}

interface ProxyOptions {
  variables: Record<string, string>
  /** After the address of its listener, such as options of TLS. */
  options?: string
  /** The addresses of its listener, with PORT in them. */
  addresses?: string
  flags?: string[]
}

export async function startProxy(
  { variables, options = '', addresses = `${HOST}:PORT`, flags = [] }: ProxyOptions,
  cleanup: AsyncDisposableStack,
): Promise<RunningProxy> {
  const port = await findFreePort({ host: HOST, port: 0 })
  let platformPort = port
  // The certificate is for this IP address, so both listeners use it.
  while (platformPort === port) platformPort = await findFreePort({ host: HOST, port: 0 })
  const env = {
    RUN_AS: userInfo().username,
    // Below the default, so that an ordinary limit of open files is enough.
    MAX_CONNECTIONS: '400',
    STRANGERS_CONNECTIONS: '300',
    PUBLIC_BIND: `${addresses.replaceAll('PORT', String(port))} ${options}`,
    HANDOVER_ADDRESS: `abns@gatehouse-${port}`,
    PLATFORM_BIND: `${HOST}:${platformPort} ${options}`,
    ...variables,
  }
  const running = await startHaproxy(
    { file: 'haproxy.cfg', env, place: { host: HOST, port }, flags },
    cleanup,
  )
  const origin = `${options ? 'https' : 'http'}://${HOST}`
  return {
    url: `${origin}:${port}`,
    platformUrl: `${origin}:${platformPort}`,
    ...running,
  }
}

/** Waits until it listens at `place`. `file` is in deploy/. */
export async function startHaproxy(
  options: { file: string; env: Record<string, string>; place: Place; flags?: string[] },
  cleanup: AsyncDisposableStack,
): Promise<Running> {
  const { file, env, place, flags = [] } = options
  const haproxy = spawn('haproxy', [...flags, '-db', '-f', join(DEPLOY, file)], {
    env: { PATH: `${process.env['PATH']}:/usr/sbin`, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let said = ''
  for (const stream of [haproxy.stdout, haproxy.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-100_000)
    })
  }
  await once(haproxy, 'spawn').catch((cause: Error) => {
    throw new Error('HAProxy is missing: apt-get install -y --no-install-recommends haproxy', { cause })
  })
  cleanup.defer(async () => {
    haproxy.kill('SIGKILL')
    if (haproxy.exitCode === null && haproxy.signalCode === null) await once(haproxy, 'exit')
  })
  while (!(await isListening(place))) {
    if (haproxy.exitCode !== null) throw new Error(`HAProxy did not start:\n${said}`)
    await sleep(PAUSE_MS)
  }
  return { process: haproxy, output: () => said }
}

/** The first line of a connection, in which a balancer names its client (PROXY protocol, version 1). */
export function clientLine(ipAddress: string): string {
  return ipAddress.includes(':')
    ? `PROXY TCP6 ${ipAddress} ::1 1 1\r\n`
    : `PROXY TCP4 ${ipAddress} 127.0.0.1 1 1\r\n`
}
