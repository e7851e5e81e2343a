import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { userInfo } from 'node:os'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findFreePort } from '../../src/process/listen.ts'
import { isListening } from './places.ts'

/** HAProxy with the shipped configuration. Only its environment differs from production. */

const FILE = resolve(import.meta.dirname, '../../deploy/haproxy.cfg')
const HOST = '127.0.0.1'
const PAUSE_MS = 20

interface RunningProxy {
  url: string
  platformUrl: string
  process: ChildProcess
  output(): string
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
  const proxy = spawn('haproxy', [...flags, '-db', '-f', FILE], {
    env: {
      PATH: `${process.env['PATH']}:/usr/sbin`,
      RUN_AS: userInfo().username,
      // Below the default, so that an ordinary limit of open files is enough.
      MAX_CONNECTIONS: '400',
      STRANGERS_CONNECTIONS: '300',
      PUBLIC_BIND: `${addresses.replaceAll('PORT', String(port))} ${options}`,
      HANDOVER_ADDRESS: `abns@gatehouse-${port}`,
      PLATFORM_BIND: `${HOST}:${platformPort} ${options}`,
      ...variables,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let said = ''
  for (const stream of [proxy.stdout, proxy.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-100_000)
    })
  }
  await once(proxy, 'spawn').catch((cause: Error) => {
    throw new Error('HAProxy is missing: apt-get install -y --no-install-recommends haproxy', { cause })
  })
  cleanup.defer(async () => {
    proxy.kill('SIGKILL')
    if (proxy.exitCode === null && proxy.signalCode === null) await once(proxy, 'exit')
  })
  while (!(await isListening({ host: HOST, port }))) {
    if (proxy.exitCode !== null) throw new Error(`HAProxy did not start:\n${said}`)
    await sleep(PAUSE_MS)
  }
  const origin = `${options ? 'https' : 'http'}://${HOST}`
  return {
    url: `${origin}:${port}`,
    platformUrl: `${origin}:${platformPort}`,
    process: proxy,
    output: () => said,
  }
}

/** The first line of a connection, in which a balancer names its client (PROXY protocol, version 1). */
export function clientLine(ipAddress: string): string {
  return ipAddress.includes(':')
    ? `PROXY TCP6 ${ipAddress} ::1 1 1\r\n`
    : `PROXY TCP4 ${ipAddress} 127.0.0.1 1 1\r\n`
}
