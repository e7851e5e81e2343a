import { randomBytes } from 'node:crypto'
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startEmbeddedPostgres } from '../../../src/process/local/postgres.ts'
import { createInstance } from '../../kit/instance.ts'
import { findServicePlaces } from '../../kit/places.ts'
import { runStatement } from '../../kit/postgres.ts'
import { childrenOf, findPostmaster, sendSignal } from '../../kit/processes.ts'
import { openProxy, type TcpProxy } from '../../kit/tcp-proxy.ts'
import { ACCESS_TOKEN_TTL_SECONDS, createCompanies, openMailbox, type Site } from './site.ts'
import { canHaveDisks, openSmallDisk, type SmallDisk } from './small-disk.ts'

/** Two instances with two workers each, which reach one Postgres through a TCP proxy. */
export interface Pair extends Site {
  database: Database
  proxy: TcpProxy
  /** Undefined unless root runs the test. */
  databaseDisk: SmallDisk | undefined
  logDisk: SmallDisk | undefined
}

type Database = Awaited<ReturnType<typeof openDatabase>>

const PATIENCE_MS = 60_000
const LOOK_MS = 100
/** Enough for the database with a small write-ahead log. */
const DISK_MB = 512

/** `project`: the project to start; this one by default. */
export async function openPair(
  { project }: { project?: string },
  cleanup: AsyncDisposableStack,
): Promise<Pair> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-fault-test-'))
  cleanup.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  // If root starts it, Postgres runs as a different user, who must be able to reach its data.
  await chmod(folder, 0o711)
  const open = (name: string) =>
    canHaveDisks() ? openSmallDisk(join(folder, name), DISK_MB, cleanup) : undefined
  const [databaseDisk, logDisk] = [await open('database'), await open('log')]
  const database = await openDatabase(join(databaseDisk?.folder ?? folder, 'postgres'), cleanup)
  const proxy = await openProxy(database.place)
  cleanup.defer(() => proxy.close())
  const { url, mails } = await openMailbox(cleanup)
  const settings = {
    databaseUrl: database.url(),
    masterKeys: `fault:${randomBytes(32).toString('base64')}`,
    publicUrl: 'http://fault.example',
  }
  const made = await createCompanies(settings)
  const variables = {
    DATABASE_URL: Object.assign(new URL(database.url()), { host: `${proxy.host}:${proxy.port}` }).href,
    MASTER_KEYS: settings.masterKeys,
    PUBLIC_URL: settings.publicUrl,
    SMTP_URL: url,
    WORKERS: '2',
    ACCESS_TOKEN_TTL_SECONDS,
    // All requests come from one network.
    RATE_LIMIT_SCALE: '100000',
  }
  async function openInstance(name: string) {
    const { env, address, platform } = await findServicePlaces()
    const own = { ...variables, ...env, DATA_DIR: join(folder, name) }
    const instance = createInstance(
      { log: join(logDisk?.folder ?? folder, name), variables: own, project },
      cleanup,
    )
    await instance.start()
    return { instance, address, platform }
  }
  const opened = await Promise.all(['instance-1', 'instance-2'].map(openInstance))
  return {
    ...{ ...made, mails, database, proxy, databaseDisk, logDisk },
    instances: opened.map(({ instance }) => instance),
    urls: opened.map(({ address }) => address),
    platformUrls: opened.map(({ platform }) => platform),
    settle: async () => {},
  }
}

/** A separate Postgres, with fsync as in production, that can be killed and restarted. */
async function openDatabase(dataDir: string, cleanup: AsyncDisposableStack) {
  await mkdir(dataDir)
  await chmod(dataDir, 0o711)
  const settings = { max_connections: '100', max_wal_size: '128MB' }
  const launch = () => startEmbeddedPostgres({ dataDir, randomBytes, settings })
  let starting = launch()
  cleanup.defer(async () => {
    const last = await starting.catch(() => null)
    await last?.stop()
  })
  let server = await starting
  return {
    /** Without the proxy. */
    url: () => server.url,
    place() {
      const { hostname: host, port } = new URL(server.url)
      return { host, port: Number(port) }
    },
    kill() {
      const main = findPostmaster(dataDir)
      // The main process first, so that it does not start others.
      for (const pid of [main, ...childrenOf(main)]) if (pid !== undefined) sendSignal(pid, 'SIGKILL')
    },
    stop: () => server.stop(),
    /** Starts Postgres if it has ended, perhaps with a new port. Resolves when it responds. */
    async start() {
      for (const deadline = performance.now() + PATIENCE_MS; ; await sleep(LOOK_MS)) {
        if (cleanup.disposed) throw new Error('the run has ended')
        if (findPostmaster(dataDir) === undefined) {
          starting = launch()
          server = await starting
        }
        const [answered] = await Promise.allSettled([runStatement(server.url, 'select')])
        if (answered.status === 'fulfilled') return
        if (performance.now() > deadline) throw new Error('Postgres did not come back')
      }
    },
  }
}
