import { hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kysely, PostgresDialect, sql, type Transaction } from 'kysely'
import pg from 'pg'
import { LruMap } from 'toad-cache'
import { type AwaitAnswer, ConnectionError, isPoisonous, StandbyError, watchForSilence } from './faults.ts'
import type { Database } from './schema.ts'
import {
  AUDIT_POOL_SIZE,
  FOR_MAINTENANCE,
  FOR_PROBES,
  forAuditReads,
  forRequests,
  type Settings,
  toStatements,
} from './settings.ts'

export type Executor = Kysely<Database>
export type Tx = Transaction<Database>

export interface Connection {
  db: Kysely<Database>
  /** For audit reads, which can be large: few connections and short timeouts leave the rest to requests. */
  auditDb: Kysely<Database>
  /** Separate, so that the readiness probe does not wait behind requests. */
  health: Kysely<Database>
  maintenance: Kysely<Database>
  pool: Pick<pg.Pool, 'totalCount' | 'idleCount' | 'waitingCount' | 'options'>
  close(): Promise<void>
}

interface ConnectOptions {
  url: string
  poolSize: number
  /** Multiplies timeouts, for race tests on a busy machine. */
  timeoutScale?: number
  /** A connection is replaced after two thirds of this or more, so that they do not all expire at the same time. */
  lifetimeSeconds?: number
  onIdleError?: ((error: Error) => void) | undefined
}

const CLOSE_MS = 3_000
/** Bounds how long a connection can stay on a server that is no longer the primary. */
const LIFETIME_SECONDS = 1_800
const GOLDEN_RATIO = 0.618_034

const names = new Map<string, string>()

function statementName(text: string): string {
  const name = names.get(text) ?? hash('sha256', text, 'base64url').slice(0, 24)
  names.set(text, name)
  return name
}

class Client extends pg.Client {
  readonly awaitAnswer: AwaitAnswer = (ask) => ask()

  constructor(config?: string | pg.ClientConfig) {
    super(config)
    // The pool listens only to idle clients. A connection lost in a transaction would end the process.
    this.on('error', () => {})
  }

  // biome-ignore lint/suspicious/noExplicitAny: pg overloads query eight ways; only Kysely's call is changed
  override query(...args: any[]): any {
    const [text, values] = args
    if (typeof text !== 'string' || !Array.isArray(values)) return Reflect.apply(super.query, this, args)
    const query = values.length > 0 ? { name: statementName(text), text, values } : { text }
    return this.awaitAnswer(() => super.query(query)).catch((error: unknown) => {
      if (isPoisonous(error)) this.connection.stream.destroy()
      throw error
    })
  }
}

const PATIENCE_MS = 2_000

async function acquire(pool: pg.Pool, awaitAnswer: AwaitAnswer): Promise<pg.PoolClient> {
  let acquired: Promise<pg.PoolClient> | undefined
  try {
    return await awaitAnswer(() => {
      acquired = pool.connect().catch((error: Error) => {
        throw new ConnectionError(error)
      })
      return acquired
    })
  } catch (error) {
    acquired?.then((late) => late.release()).catch(() => {})
    throw error
  }
}

/** A standby can still show ended sessions as active, and a proxy can briefly route to one. @throws StandbyError */
async function requirePrimary(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query<{ isStandby: boolean }>('select pg_is_in_recovery() as "isStandby"')
  if (rows[0]?.isStandby) throw new StandbyError()
}

/** Long waits fail with 503. If the probe gets no reply either, requests fail after 4 s, and later ones immediately. */
export function connect({
  url,
  poolSize,
  timeoutScale = 1,
  lifetimeSeconds = LIFETIME_SECONDS,
  onIdleError,
}: ConnectOptions): Connection {
  const open = (max: number, { server, ...waits }: Settings, awaitAnswer: AwaitAnswer = (ask) => ask()) => {
    const statements = toStatements(server)
    let opened = 0
    const pool = new pg.Pool({
      connectionString: url,
      max,
      Client: class extends Client {
        override readonly awaitAnswer = awaitAnswer
      },
      application_name: 'gatehouse',
      ...waits,
      // Not in the startup message: poolers such as PgBouncer refuse settings there.
      async onConnect(client) {
        await client.query(statements)
        await requirePrimary(client)
        // The pool reads it next. Any number of multiples of the golden ratio is evenly spread.
        opened += 1
        pool.options.maxLifetimeSeconds = lifetimeSeconds * (1 - ((opened * GOLDEN_RATIO) % 1) / 3)
      },
      types,
      idleTimeoutMillis: 60_000,
      keepAlive: true,
    })
    // A database that stops can end connections that the pool is closing.
    pool.on('error', (error) => pool.ending || onIdleError?.(error))
    const { options } = pool
    const dialect = new PostgresDialect({
      pool: { options, connect: () => acquire(pool, awaitAnswer), end: () => pool.end() },
    })
    return { pool, db: new Kysely<Database>({ dialect }) }
  }
  const { db: health } = open(1, FOR_PROBES)
  const { db: probes } = open(1, FOR_PROBES)
  const awaitAnswer = watchForSilence(() => ping(probes), PATIENCE_MS * timeoutScale)
  const { pool, db } = open(poolSize, forRequests(timeoutScale), awaitAnswer)
  const { db: auditDb } = open(AUDIT_POOL_SIZE, forAuditReads(timeoutScale), awaitAnswer)
  const { db: maintenance } = open(1, FOR_MAINTENANCE)
  return {
    db,
    auditDb,
    health,
    maintenance,
    pool,
    async close() {
      const closed = Promise.all([db, auditDb, health, probes, maintenance].map((one) => one.destroy()))
      // An unresponsive server does not close its end either.
      await Promise.race([closed, sleep(CLOSE_MS, undefined, { ref: false })])
    },
  }
}

/** `throw rollBack(outcome)` writes nothing, and returns that outcome. */
export async function transact<Outcome>(
  db: Kysely<Database>,
  work: (tx: Tx, rollBack: (outcome: Outcome) => Error) => Promise<Outcome>,
): Promise<Outcome> {
  let rollback: { error: Error; outcome: Outcome } | undefined
  const rollBack = (outcome: Outcome) => {
    rollback = { error: new Error('rolled back'), outcome }
    return rollback.error
  }
  try {
    return await db.transaction().execute((tx) => work(tx, rollBack))
  } catch (error) {
    if (rollback && error === rollback.error) return rollback.outcome
    throw error
  }
}

export async function ping(db: Executor): Promise<void> {
  await sql`select 1`.execute(db)
}

/** pg's parsers, except for two types that every request reads many times. */
const types: pg.CustomTypesConfig = {
  getTypeParser(oid: number, format) {
    if (format !== 'binary' && oid === TEXT_ARRAY) return readTextArray
    if (format !== 'binary' && oid === pg.types.builtins.TIMESTAMPTZ) return readTime
    return pg.types.getTypeParser(oid, format)
  },
}

const TEXT_ARRAY: number = 1009 // pg has no name for it
const parseArray = pg.types.getTypeParser(TEXT_ARRAY)
/** There are few distinct lists of permissions and features, so each is parsed once. Frozen because it is shared. */
const parsed = new LruMap<readonly string[]>(1_000)

function readTextArray(text: string): readonly string[] {
  const found = parsed.get(text)
  if (found) return found
  const array: readonly string[] = Object.freeze(parseArray(text))
  parsed.set(text, array)
  return array
}

const parseTime = pg.types.getTypeParser(pg.types.builtins.TIMESTAMPTZ)
const UTC_TIME = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+00$/

function readTime(text: string): Date {
  return UTC_TIME.test(text) ? new Date(`${text.slice(0, 10)}T${text.slice(11)}:00`) : parseTime(text)
}
