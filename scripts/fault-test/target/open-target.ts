import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openOperator } from '../../kit/operator.ts'
import { openProxy, type TcpProxy } from '../../kit/tcp-proxy.ts'
import { type Database, openDatabase } from './database.ts'
import { type Instance, openInstance } from './instance.ts'
import { ACCESS_TOKEN_TTL_SECONDS, createCompanies, openMailbox, type Site, type Size } from './site.ts'
import { canHaveDisks, openSmallDisk, type SmallDisk } from './small-disk.ts'

/** Two instances of the service on one Postgres, which they reach by a proxy of ours, and a mail server. */
export interface Target extends Site {
  instances: readonly Instance[]
  database: Database
  proxy: TcpProxy
  /** Undefined where they cannot be had. */
  databaseDisk: SmallDisk | undefined
  logDisk: SmallDisk | undefined
}

interface Options {
  workers: number
  size: Size
  /** The project whose service it is; this one by default. */
  project: string | undefined
}

/** With the write-ahead log, which is kept small. */
const DATABASE_MB = 512
const LOG_MB = 512

export async function openTarget(
  { workers, size, project }: Options,
  cleanup: AsyncDisposableStack,
): Promise<Target> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-fault-test-'))
  cleanup.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  await chmod(folder, 0o711)
  const open = (name: string, megabytes: number) => openSmallDisk(join(folder, name), megabytes, cleanup)
  const databaseDisk = canHaveDisks() ? await open('database', DATABASE_MB) : undefined
  const logDisk = canHaveDisks() ? await open('log', LOG_MB) : undefined
  const database = await openDatabase(join(databaseDisk?.folder ?? folder, 'postgres'), cleanup)
  const proxy = await openProxy(database.place)
  cleanup.defer(() => proxy.close())
  const mail = await openMailbox(cleanup)
  const settings = {
    databaseUrl: database.url(),
    masterKeys: `fault:${randomBytes(32).toString('base64')}`,
    publicUrl: 'http://fault.example',
  }
  const made = await setUp(settings, size)
  const variables = {
    DATABASE_URL: Object.assign(new URL(database.url()), { host: `${proxy.host}:${proxy.port}` }).href,
    MASTER_KEYS: settings.masterKeys,
    PUBLIC_URL: settings.publicUrl,
    SMTP_URL: mail.url,
    WORKERS: String(workers),
    ACCESS_TOKEN_TTL_SECONDS,
    // All requests come from one network.
    RATE_LIMIT_SCALE: '100000',
  }
  const logFolder = logDisk?.folder ?? folder
  const start = (name: string) => openInstance({ name, folder, logFolder, project, variables }, cleanup)
  const instances = [await start('instance-1'), await start('instance-2')]
  return {
    companies: made.companies,
    crowd: made.crowd,
    reader: async () => made.reader,
    mail,
    urls: instances.map(({ url }) => url),
    platformUrls: instances.map(({ platformUrl }) => platformUrl),
    ...{ instances, database, proxy, databaseDisk, logDisk },
  }
}

async function setUp(settings: Parameters<typeof openOperator>[0], size: Size) {
  await using cleanup = new AsyncDisposableStack()
  const operator = await openOperator(settings, cleanup)
  const companies = await createCompanies(operator, settings.databaseUrl, size)
  return { ...companies, reader: await operator.createClient(['events:read']) }
}
