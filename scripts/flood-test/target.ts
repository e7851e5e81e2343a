import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type pg from 'pg'
import { type Company, openCompany } from '../kit/company.ts'
import { openSender, type Sender } from '../kit/events.ts'
import { startProxy } from '../kit/haproxy.ts'
import type { Credentials } from '../kit/operations.ts'
import { createDatabase, type Postgres } from '../kit/postgres.ts'
import { startService } from '../kit/service.ts'
import { openFrom } from './networks.ts'

/** A service with production's limits and one company, behind the shipped proxy. */
export interface Target {
  url: string
  pid: number | undefined
  connection: pg.Client
  admin: Credentials
  /** Members who send honest load, and members whom attackers know. All have the admin's password. */
  honest: Credentials[]
  attacked: Credentials[]
  sender: Sender
  addSessions: Company['addSessions']
}

const IP_ADDRESS = '127.0.0.1'
const ADMINS_NETWORK = '203.0.113.1'
const HONEST_MEMBERS = 200

export async function openTarget(postgres: Postgres, cleanup: AsyncDisposableStack): Promise<Target> {
  const databaseUrl = await createDatabase(postgres, cleanup)
  const masterKeys = `flood:${randomBytes(32).toString('base64')}`
  const settings = { databaseUrl, masterKeys, publicUrl: 'http://flood.example' }
  const { connection, admin, people, addSessions } = await openCompany(settings, cleanup)
  const folder = join(postgres.folder, new URL(databaseUrl).pathname.slice(1))
  const variables = {
    DATABASE_URL: databaseUrl,
    MASTER_KEYS: masterKeys,
    PUBLIC_URL: settings.publicUrl,
    DATA_DIR: folder,
    TRUST_PROXY: `${IP_ADDRESS}/32`,
  }
  const service = await startService({ variables, logFile: `${folder}.log` }, cleanup)
  const { url } = await startProxy({ variables: proxyVariables(service) }, cleanup)
  const client = openFrom(ADMINS_NETWORK, url)
  cleanup.defer(() => client.close())
  return {
    url,
    pid: service.pid,
    connection,
    admin,
    honest: people.slice(0, HONEST_MEMBERS),
    attacked: people.slice(HONEST_MEMBERS),
    sender: await openSender(client, admin),
    addSessions,
  }
}

function proxyVariables({ url, opsUrl }: { url: string; opsUrl: string }): Record<string, string> {
  return {
    // Connections from here name their client.
    BALANCERS: IP_ADDRESS,
    MAX_CONNECTIONS: '8000',
    STRANGERS_CONNECTIONS: '6000',
    INSTANCE_1: new URL(url).host,
    INSTANCE_1_OPS: new URL(opsUrl).host,
    // Without a second instance.
    INSTANCE_2: `${IP_ADDRESS}:1`,
    INSTANCE_2_OPS: `${IP_ADDRESS}:1`,
  }
}

/** Bytes include indexes. */
export interface Growth {
  table: string
  rows: number
  bytes: number
}

/** Partitions count as part of their table. */
export async function measureTables(connection: pg.Client): Promise<Growth[]> {
  const { rows } = await connection.query<Growth>(
    `select root::regclass::text as table, sum(count)::float8 as rows, sum(bytes)::float8 as bytes
     from pg_class c,
       coalesce(pg_partition_root(c.oid), c.oid) root,
       pg_total_relation_size(c.oid) bytes,
       query_to_xml(format('select count(*) from %s', c.oid::regclass), false, false, '') counted,
       cast((xpath('//count/text()', counted))[1]::text as bigint) count
     where relnamespace = 'public'::regnamespace and relkind = 'r' and relname !~ '^kysely'
     group by root
     order by 1`,
  )
  return rows
}

export function growthBetween(before: Growth[], after: Growth[]): Growth[] {
  const previous = new Map(before.map((size) => [size.table, size]))
  return after
    .map(({ table, rows, bytes }) => {
      const was = previous.get(table)
      return { table, rows: rows - (was?.rows ?? 0), bytes: bytes - (was?.bytes ?? 0) }
    })
    .filter(({ rows, bytes }) => rows !== 0 || bytes !== 0)
}
