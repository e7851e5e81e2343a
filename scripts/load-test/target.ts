import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import fastify from 'fastify'
import pg from 'pg'
import { createCompany, generatePassword } from '../../src/company/service.ts'
import { loadConfig } from '../../src/config.ts'
import { createPasswordHasher } from '../../src/crypto/password.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { connect } from '../../src/database/connect.ts'
import { startEmbeddedPostgres } from '../../src/database/embedded/server.ts'
import { migrate } from '../../src/database/migrate.ts'
import { realSystem } from '../../src/system.ts'
import { tokenPlugin } from '../../src/token/plugin.ts'
import { openClient, openSession } from './operations.ts'
import { findPostmaster } from './processes.ts'

/** What the load is put on: a service with a company, its users and its sessions. */

const PROJECT = resolve(import.meta.dirname, '../..')
/** In the tokens of a service that is started here. */
const PUBLIC_URL = 'http://load.example'

export interface Person {
  companyId: string
  email: string
  password: string
}

/** What only whoever calls can put right; told without a stack. */
export class UsageError extends Error {}

/** A live session and the credentials to use it. */
export interface LiveSession {
  id: string
  accessToken: string
  refreshToken: string
}

export interface Target {
  /** Without the path. */
  url: string
  /** Its database, where it is known. */
  databaseUrl: string | undefined
  admin: Person
  /** People who may sign in, all with the admin's password. */
  people: Person[]
  /** Sessions that nothing else uses: of those that exist, spread over the table, or new ones. */
  takeSessions(count: number, which: 'existing' | 'new'): Promise<LiveSession[]>
  /** Processes, to read their usage. */
  servicePid: number | undefined
  postgresPid: number | undefined
  close(): Promise<void>
}

/** A Postgres to make databases on: the one of DATABASE_URL, or an embedded one with fsync, as in production. */
export async function openPostgres() {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-load-test-'))
  // Open to the account that Postgres runs under when we are root.
  await chmod(folder, 0o711)
  const own = process.env['DATABASE_URL']
  const server = own
    ? { url: own, stop: async () => {} }
    : await startEmbeddedPostgres({ dataDir: join(folder, 'data'), randomBytes })
  return {
    url: server.url,
    folder,
    pid: own ? undefined : findPostmaster(folder),
    async close() {
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

export type Postgres = Awaited<ReturnType<typeof openPostgres>>

/** Starts a service on a new database with that many sessions. */
export async function startTarget(postgres: Postgres, sessions: number): Promise<Target> {
  const name = `gatehouse_load_${randomBytes(6).toString('hex')}`
  await runSql(postgres.url, `create database ${name}`)
  const databaseUrl = Object.assign(new URL(postgres.url), { pathname: `/${name}` }).href
  const masterKeys = `load:${randomBytes(32).toString('base64')}`
  const operator = await openOperator(databaseUrl, masterKeys, PUBLIC_URL)
  await operator.addSessions(sessions)
  async function clear() {
    await operator.close()
    await runSql(postgres.url, `drop database ${name} with (force)`)
  }

  const logFile = join(postgres.folder, `${name}.log`)
  const log = openSync(logFile, 'w')
  // As `npm start` does it, but in one process that signals reach.
  const { scripts } = JSON.parse(await readFile(join(PROJECT, 'package.json'), 'utf8'))
  const service = spawn('/bin/sh', ['-c', scripts.start], {
    cwd: PROJECT,
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: databaseUrl,
      MASTER_KEYS: masterKeys,
      PUBLIC_URL,
      // Limits are counted as ever, and never met.
      RATE_LIMIT_SCALE: '1000000',
      PORT: '0',
      OPS_PORT: '0',
    },
    stdio: ['ignore', log, log],
    // Ctrl-C is meant for the load test, which ends the service when it has reported.
    detached: true,
  })
  const url = await addressOf(service, logFile).catch(async (error) => {
    await clear()
    throw error
  })
  return {
    ...operator.target,
    url,
    databaseUrl,
    servicePid: service.pid,
    postgresPid: postgres.pid,
    async close() {
      service.kill('SIGTERM')
      if (isRunning(service)) await once(service, 'exit')
      await clear()
    },
  }
}

function isRunning({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null
}

/** Where a service listens that was started on any free port: it says so in its log. */
async function addressOf(service: ChildProcess, logFile: string): Promise<string> {
  for (let waitedMs = 0; waitedMs < 30_000 && isRunning(service); waitedMs += 50) {
    await sleep(50)
    const [, address] = /"Server listening at ([^"]+)"/.exec(await readFile(logFile, 'utf8')) ?? []
    if (address) return address
  }
  service.kill('SIGKILL')
  throw new Error(`The service does not start:\n${await readFile(logFile, 'utf8')}`)
}

/** A service that runs already, with a company of its own if its database and master keys are known. */
export async function joinTarget(url: string, count: number, signal: AbortSignal): Promise<Target> {
  const { DATABASE_URL, MASTER_KEYS, PUBLIC_URL, COMPANY_ID, EMAIL, PASSWORD } = process.env
  if (DATABASE_URL && MASTER_KEYS) {
    const operator = await openOperator(DATABASE_URL, MASTER_KEYS, PUBLIC_URL ?? new URL(url).origin)
    await operator.addSessions(count)
    return {
      ...operator.target,
      url,
      databaseUrl: DATABASE_URL,
      servicePid: undefined,
      postgresPid: undefined,
      close: operator.close,
    }
  }
  if (!COMPANY_ID || !EMAIL || !PASSWORD) {
    throw new UsageError(
      'With --url, set COMPANY_ID, EMAIL and PASSWORD of an admin, or DATABASE_URL and MASTER_KEYS of the service, in the environment.',
    )
  }
  const admin = { companyId: COMPANY_ID, email: EMAIL, password: PASSWORD }
  return {
    url,
    databaseUrl: undefined,
    admin,
    people: [admin],
    takeSessions: (count) => signIn(url, admin, count, signal),
    servicePid: undefined,
    postgresPid: undefined,
    close: async () => {},
  }
}

async function signIn(
  url: string,
  person: Person,
  count: number,
  signal: AbortSignal,
): Promise<LiveSession[]> {
  console.error(`signing in for ${count.toLocaleString('en')} sessions`)
  const client = openClient(url, 8)
  const sessions: LiveSession[] = []
  const loops = Array.from({ length: 8 }, async () => {
    while (sessions.length < count && !signal.aborted) sessions.push(await openSession(client, person))
  })
  await Promise.all(loops)
  await client.close()
  return sessions.slice(0, count)
}

interface SessionRow {
  session_id: string
  user_id: string
  issued_at: Date
  expires_at: Date
}

/** Makes a company, and what load needs of sessions, past the service: in bulk in its database. */
async function openOperator(databaseUrl: string, masterKeys: string, publicUrl: string) {
  const config = loadConfig({
    DATABASE_URL: databaseUrl,
    MASTER_KEYS: masterKeys,
    PUBLIC_URL: publicUrl,
  })
  const connection = connect({ url: databaseUrl, poolSize: 2 })
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  await migrate(connection.maintenance)
  const sealer = createSealer(config.masterKeys, realSystem.randomBytes)
  const minter = fastify()
  await minter.register(tokenPlugin, { config, db: connection.db, sealer, system: realSystem })

  const password = generatePassword(realSystem)
  const email = 'admin@load.example'
  const context = { db: connection.db, hasher: await createPasswordHasher(), system: realSystem }
  const { companyId } = await createCompany(context, {
    name: `Load test ${new Date().toISOString()}`,
    adminEmail: email,
    password,
  })
  const { rows: people } = await client.query<{ email: string }>(
    `insert into users
     select company_id, gen_random_uuid(), 'user' || n || '@load.example', name, 'analyst', assignments, status,
       password_hash, email_verified_at, created_at
     from users, generate_series(1, 1000) n where company_id = $1
     returning email`,
    [companyId],
  )

  /** Adds sessions of all users, as if they had begun a day ago; returns at most `wanted` of them. */
  async function addSessions(count: number, wanted = 0): Promise<SessionRow[]> {
    const added: SessionRow[] = []
    const CHUNK = 100_000
    for (let from = 0; from < count; from += CHUNK) {
      const { rows } = await client.query<SessionRow>(
        `insert into sessions (company_id, session_id, user_id, kind, created_at, issued_at, expires_at,
           max_expires_at, user_agent, ip_address)
         select $1, (lpad(to_hex(($3::float8 * 1000)::bigint + n / 100), 12, '0') || '7' || substr(r, 14))::uuid,
           user_id, 'token', to_timestamp($3), to_timestamp($3), to_timestamp($3) + interval '6 days',
           to_timestamp($3) + interval '29 days', 'load-test/1.0', '192.0.2.1'
         from (
           select n, replace(gen_random_uuid()::text, '-', '') as r,
             ($4::uuid[])[1 + n % cardinality($4::uuid[])] as user_id
           from generate_series(1, $2::int) n
         ) made
         returning session_id, user_id, issued_at, expires_at`,
        [
          companyId,
          Math.min(CHUNK, count - from),
          Math.floor(Date.now() / 1000) - 86_400 + from / 100_000,
          userIds,
        ],
      )
      // A few at a time are asked for; millions are just there.
      for (const row of rows) if (added.length < wanted) added.push(row)
    }
    await client.query('analyze')
    return added
  }

  const { rows: users } = await client.query<{ user_id: string }>(
    'select user_id from users where company_id = $1',
    [companyId],
  )
  const userIds = users.map(({ user_id: id }) => id)
  const permissions = await permissionsOf(client, companyId)
  const taken = new Set<string>()

  async function findSessions(count: number): Promise<SessionRow[]> {
    const { rows } = await client.query<SessionRow>(
      `select session_id, user_id, issued_at, expires_at from sessions
       where company_id = $1 and ended_at is null and generation = 0
       order by random() limit $2`,
      [companyId, count + taken.size],
    )
    return rows.filter(({ session_id: id }) => !taken.has(id)).slice(0, count)
  }

  async function toLiveSession(row: SessionRow): Promise<LiveSession> {
    taken.add(row.session_id)
    const now = Date.now()
    const owner = { sub: row.user_id, cid: companyId, sid: row.session_id }
    const nowSeconds = Math.floor(now / 1000)
    const [iat, exp] = [row.issued_at, row.expires_at].map((time) => Math.floor(time.getTime() / 1000))
    const rights = permissions.get(row.user_id)
    if (iat === undefined || exp === undefined || !rights) throw new Error('a session without its user')
    return {
      id: row.session_id,
      accessToken: await minter.tokens.signAccess(
        { ...owner, ...rights, iat: nowSeconds, exp: nowSeconds + config.accessTokenTtlSeconds },
        now,
      ),
      refreshToken: minter.tokens.signRefresh({ ...owner, gen: 0, iat, exp }),
    }
  }

  return {
    addSessions,
    target: {
      admin: { companyId, email, password },
      people: people.map((user) => ({ companyId, email: user.email, password })),
      async takeSessions(count: number, which: 'existing' | 'new') {
        const found = which === 'existing' ? await findSessions(count) : []
        const missing = count - found.length
        const rows = missing > 0 ? [...found, ...(await addSessions(missing, missing))] : found
        const sessions: LiveSession[] = []
        for (const row of rows) sessions.push(await toLiveSession(row))
        return sessions
      },
    },
    async close() {
      await minter.close()
      await client.end()
      await connection.close()
    },
  }
}

async function permissionsOf(client: pg.Client, companyId: string) {
  const { rows } = await client.query<{ user_id: string; role: string; permissions: string[] }>(
    'select user_id, role, permissions from accounts where company_id = $1',
    [companyId],
  )
  return new Map(rows.map(({ user_id, role, permissions }) => [user_id, { role, perms: permissions }]))
}

async function runSql(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
