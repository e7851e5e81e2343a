import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInstance, type Instance } from '../../kit/instance.ts'
import { openOperator } from '../../kit/operator.ts'
import { findServicePlaces } from '../../kit/places.ts'
import { openProxy, type TcpProxy } from '../../kit/tcp-proxy.ts'
import { type Database, openDatabase } from './database.ts'
import { ACCESS_TOKEN_TTL_SECONDS, createCompanies, openMailbox, type Site } from './site.ts'
import { canHaveDisks, openSmallDisk, type SmallDisk } from './small-disk.ts'

/** Two instances of the service, with two workers each, on one Postgres, which they reach by a proxy of ours. */
export interface Pair extends Site {
  instances: readonly PairInstance[]
  database: Database
  proxy: TcpProxy
  /** Undefined where they cannot be had. */
  databaseDisk: SmallDisk | undefined
  logDisk: SmallDisk | undefined
}

type PairInstance = Instance & { url: string; opsUrl: string; platformUrl: string }

/** Enough for the database with its write-ahead log, which is kept small. */
const DISK_MB = 512

/** `project`: whose service it is; this one by default. */
export async function openPair(project: string | undefined, cleanup: AsyncDisposableStack): Promise<Pair> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-fault-test-'))
  cleanup.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
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
  const made = await setUp(settings)
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
  const instances = await Promise.all(
    ['instance-1', 'instance-2'].map((name) => {
      const own = { ...variables, DATA_DIR: join(folder, name) }
      return openInstance(join(logDisk?.folder ?? folder, name), own, project, cleanup)
    }),
  )
  return {
    ...made,
    mails,
    urls: instances.map((instance) => instance.url),
    platformUrls: instances.map(({ platformUrl }) => platformUrl),
    ...{ instances, database, proxy, databaseDisk, logDisk },
    settle: async () => {},
  }
}

async function setUp(settings: Parameters<typeof openOperator>[0]) {
  await using cleanup = new AsyncDisposableStack()
  const operator = await openOperator(settings, cleanup)
  const companies = await createCompanies(operator, settings.databaseUrl)
  return { companies, reader: await operator.createClient(['events:read']) }
}

async function openInstance(
  log: string,
  variables: Record<string, string>,
  folder: string | undefined,
  cleanup: AsyncDisposableStack,
): Promise<PairInstance> {
  const { env, address: url, ops: opsUrl, platform: platformUrl } = await findServicePlaces()
  const instance = createInstance({ log, variables: { ...variables, ...env } }, cleanup)
  await instance.start({ folder })
  return { ...instance, url, opsUrl, platformUrl }
}
