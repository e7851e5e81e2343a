import { join, resolve } from 'node:path'
import { createInstance, type Instance } from '../kit/instance.ts'
import { postgresOf } from './machine.ts'
import { MACHINES } from './network.ts'
import { type Supervised, supervise } from './supervise.ts'

export interface ClusterInstance extends Instance {
  name: string
  url: string
  opsUrl: string
}

const DEPLOY = resolve(import.meta.dirname, '../../deploy')
const HOST = '127.0.0.1'

/** Public proxies: 18080 and 18081, and 18090 and 18091 for platform clients. */
export const publicAddress = (n: number) => `${HOST}:${18_079 + n}`
export const platformAddress = (n: number) => `${HOST}:${18_089 + n}`
const portsOf = (n: number) => ({
  http: 18_000 + 100 * n,
  ops: 18_001 + 100 * n,
  database: 18_002 + 100 * n,
  platform: 18_003 + 100 * n,
})

export async function openInstance(
  n: number,
  { folder, variables }: { folder: string; variables: Record<string, string> },
  cleanup: AsyncDisposableStack,
): Promise<ClusterInstance> {
  const ports = portsOf(n)
  const name = `instance-${n}`
  const own = {
    HOST,
    PORT: String(ports.http),
    OPS_PORT: String(ports.ops),
    PLATFORM_PORT: String(ports.platform),
  }
  const instance = createInstance({ log: join(folder, name), variables: { ...variables, ...own } }, cleanup)
  await instance.start()
  return {
    ...instance,
    name,
    url: `http://${HOST}:${ports.http}`,
    opsUrl: `http://${HOST}:${ports.ops}`,
  }
}

export const databaseAddress = (n: number) => `${HOST}:${portsOf(n).database}`

export function openDatabaseProxy(n: number, folder: string, cleanup: AsyncDisposableStack): Supervised {
  const databases = MACHINES.map((machine) => [`POSTGRES_${machine}`, postgresOf(machine)])
  const env = { DATABASE_BIND: databaseAddress(n), RUN_AS: 'haproxy', ...Object.fromEntries(databases) }
  return openProxy('haproxy-database.cfg', env, join(folder, `database-proxy-${n}.log`), cleanup)
}

/** Each public proxy has its own address. Clients try both. */
export function openPublicProxy(n: number, folder: string, cleanup: AsyncDisposableStack): Supervised {
  const env = {
    RUN_AS: 'haproxy',
    PUBLIC_BIND: publicAddress(n),
    HANDOVER_ADDRESS: `abns@gatehouse-cluster-${n}`,
    PLATFORM_BIND: platformAddress(n),
    MAX_CONNECTIONS: '1000',
    STRANGERS_CONNECTIONS: '900',
    INSTANCE_1: `${HOST}:${portsOf(1).http}`,
    INSTANCE_1_OPS: `${HOST}:${portsOf(1).ops}`,
    INSTANCE_1_PLATFORM: `${HOST}:${portsOf(1).platform}`,
    INSTANCE_2: `${HOST}:${portsOf(2).http}`,
    INSTANCE_2_OPS: `${HOST}:${portsOf(2).ops}`,
    INSTANCE_2_PLATFORM: `${HOST}:${portsOf(2).platform}`,
  }
  return openProxy('haproxy.cfg', env, join(folder, `public-proxy-${n}.log`), cleanup)
}

function openProxy(
  file: string,
  env: Record<string, string>,
  logFile: string,
  cleanup: AsyncDisposableStack,
): Supervised {
  const command = ['haproxy', '-db', '-f', join(DEPLOY, file)]
  const proxy = supervise({ command, env, logFile }, cleanup)
  proxy.start()
  return proxy
}
