import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { UsageError } from '../kit/command.ts'
import { runStatement } from '../kit/postgres.ts'
import { runProgram } from '../kit/run-program.ts'
import { openControl } from './control.ts'
import { getJson, newPassword, openDatabase } from './database.ts'
import {
  type ClusterInstance,
  databasePort,
  openDatabaseProxy,
  openInstance,
  openPublicProxy,
  platformAddress,
  publicAddress,
} from './instance.ts'
import { INSTANCES, openNetworks } from './network.ts'
import { findPrograms } from './programs.ts'

export type Cluster = Awaited<ReturnType<typeof openCluster>>

interface Options {
  say: (line: string) => void
  signal: AbortSignal
  variables?: Record<string, string>
}

const ADMIN = resolve(import.meta.dirname, '../admin.ts')
const POLL_MS = 250
const PATIENCE_MS = 180_000
const LINES = 10

export async function openCluster(
  { say, signal, variables: given = {} }: Options,
  cleanup: AsyncDisposableStack,
) {
  const programs = findPrograms()
  const accept = await openControl(cleanup)
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-cluster-'))
  cleanup.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }))
  // The machines run as a different user.
  await chmod(folder, 0o711)
  await openNetworks(cleanup)

  async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS
    while (!(await holds())) {
      signal.throwIfAborted()
      if (performance.now() > deadline) {
        throw new UsageError(`No ${what} within three minutes.\n${await endsOfLogs(folder)}`)
      }
      await sleep(POLL_MS)
    }
  }

  say('Starting three machines with etcd, Patroni, and Postgres …')
  const database = await openDatabase(programs, folder, cleanup)
  await until('healthy primary with two standbys', database.isComplete)
  const passwords = { owner: newPassword(), service: newPassword(), operator: newPassword() }
  await database.createRoles(passwords)

  say('Starting two instances, their proxies, and two public proxies …')
  const databaseProxies = await Promise.all(INSTANCES.map((n) => openDatabaseProxy(n, folder, cleanup)))
  const { caFile } = database
  const urlFor = (user: string, password: string, n: number) =>
    `postgres://${user}:${password}@localhost:${databasePort(n)}/gatehouse?sslmode=verify-full&sslrootcert=${caFile}`
  const operator = {
    DATABASE_URL: urlFor('gatehouse_operator', passwords.operator, 1),
    MASTER_KEYS: `cluster:${randomBytes(32).toString('base64')}`,
    PUBLIC_URL: `http://${publicAddress(1)}`,
    PGHOST: 'localhost',
    PGPORT: String(databasePort(1)),
    PGSSLMODE: 'verify-full',
    PGSSLROOTCERT: caFile,
    PGUSER: 'gatehouse_owner',
    PGPASSWORD: passwords.owner,
    PGDATABASE: 'gatehouse',
  }
  const runAdmin = (variables: Record<string, string>, ...command: string[]) =>
    runProgram([process.execPath, ADMIN, ...command], variables)
  const url = urlFor('gatehouse_owner', passwords.owner, 1)
  await until('connection to the primary', () => succeeds(() => runStatement(url, 'select')))
  await runAdmin({ ...operator, DATABASE_URL: url }, 'migrate')
  const openOne = (n: number) => {
    const variables = {
      MASTER_KEYS: operator.MASTER_KEYS,
      PUBLIC_URL: operator.PUBLIC_URL,
      DATABASE_URL: urlFor('gatehouse', passwords.service, n),
      TRUST_PROXY: '127.0.0.1',
      WORKERS: '2',
      DRAIN_DELAY_SECONDS: '3',
      DATA_DIR: join(folder, 'data'),
      // All requests come from one network.
      RATE_LIMIT_SCALE: '100000',
      ...given,
    }
    return openInstance(n, { folder, variables }, cleanup)
  }
  const instances = await Promise.all([openOne(1), openOne(2)])
  const publicProxies = await Promise.all(INSTANCES.map((n) => openPublicProxy(n, folder, cleanup)))

  const isReady = ({ opsUrl }: ClusterInstance) => succeeds(() => getJson(`${opsUrl}/readyz`))
  return {
    accept,
    database,
    instances,
    publicProxies,
    /** One per instance. */
    databaseProxies,
    urls: [1, 2].map((n) => `http://${publicAddress(n)}`),
    /** For platform clients. */
    platformUrls: [1, 2].map((n) => `http://${platformAddress(n)}`),
    /** The environment for `npm run admin`, and for psql and pg_dump as the owner, on the current primary. */
    operator,
    folder,
    /** Runs an operator command, such as `company list`, and returns its output. */
    admin: (...command: string[]) => runAdmin(operator, ...command),
    readiness: () => Promise.all(instances.map(isReady)),
    /** Resolves when each machine has its role and both instances are ready. */
    async healthy() {
      await until('healthy primary with two standbys', database.isComplete)
      for (const one of instances) await until(`readiness of ${one.name}`, () => isReady(one))
    },
  }
}

async function succeeds(attempt: () => Promise<unknown>): Promise<boolean> {
  return await attempt().then(
    () => true,
    () => false,
  )
}

/** The last lines of each log, because the folder is deleted with the cluster. */
async function endsOfLogs(folder: string): Promise<string> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.log'))
  const ends = names.map(async (name) => {
    const lines = (await readFile(join(folder, name), 'utf8')).trimEnd().split('\n')
    return [`\n${name}:`, ...lines.slice(-LINES)].join('\n')
  })
  return (await Promise.all(ends)).join('\n')
}
