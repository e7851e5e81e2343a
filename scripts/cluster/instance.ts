import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { createInstance, type Instance } from '../kit/instance.ts'
import { issueCertificate } from './certificates.ts'
import { postgresOf } from './machine.ts'
import { INSTANCES, instanceAddress, MACHINES } from './network.ts'
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

export const databasePort = (n: number) => portsOf(n).database

/** Beside an instance. */
export async function openDatabaseProxy(
  n: number,
  folder: string,
  cleanup: AsyncDisposableStack,
): Promise<Supervised> {
  const ports = portsOf(n)
  const databases = MACHINES.map((machine) => [`POSTGRES_${machine}`, postgresOf(machine)])
  const env = {
    DATABASE_BIND: `${HOST}:${ports.database}`,
    ...Object.fromEntries(databases),
    MACHINE: instanceAddress(n),
    PORT: String(ports.http),
    OPS_PORT: String(ports.ops),
    PLATFORM_PORT: String(ports.platform),
    TLS_FOLDER: await issueCertificate(folder, `instance-${n}`, [instanceAddress(n), 'gatehouse']),
    RUN_AS: 'haproxy',
  }
  return openProxy('haproxy-database.cfg', env, join(folder, `database-proxy-${n}.log`), cleanup)
}

/** Each public proxy has its own address. Clients try both. */
export async function openPublicProxy(
  n: number,
  folder: string,
  cleanup: AsyncDisposableStack,
): Promise<Supervised> {
  const own = await issueCertificate(folder, `proxy-${n}`, [])
  const instances = INSTANCES.map((each) => {
    const [address, ports] = [instanceAddress(each), portsOf(each)]
    return {
      [`INSTANCE_${each}`]: `${address}:${ports.http}`,
      [`INSTANCE_${each}_OPS`]: `${address}:${ports.ops}`,
      [`INSTANCE_${each}_PLATFORM`]: `${address}:${ports.platform}`,
    }
  })
  const env = {
    RUN_AS: 'haproxy',
    PUBLIC_BIND: publicAddress(n),
    HANDOVER_ADDRESS: `abns@gatehouse-cluster-${n}`,
    PLATFORM_BIND: platformAddress(n),
    MAX_CONNECTIONS: '1000',
    STRANGERS_CONNECTIONS: '900',
    INSTANCE_TLS: await readInstanceTls(own),
    ...Object.assign({}, ...instances),
  }
  return openProxy('haproxy.cfg', env, join(folder, `public-proxy-${n}.log`), cleanup)
}

/** The options that haproxy.cfg suggests for instances on other machines. `own`: the folder of the proxy's certificate. */
export async function readInstanceTls(own: string): Promise<string> {
  const file = await readFile(join(DEPLOY, 'haproxy.cfg'), 'utf8')
  const [, options = ''] = /^ *# (ssl verify required .*)$/m.exec(file) ?? []
  return options.replaceAll('/etc/ssl/gatehouse', own)
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
