import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { sql } from 'kysely'
import { Webhook } from 'standardwebhooks'
import { Agent, request } from 'undici'
import { inject } from 'vitest'
import { runStatement } from '../../scripts/kit/postgres.ts'
import { buildApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config/config.ts'
import { createPasswordHasher, type HashParameters, type PasswordHasher } from '../../src/crypto/password.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { connect, type Executor } from '../../src/database/connect.ts'
import { createRegistry } from '../../src/http/metrics.ts'
import { type Applicant, createLimitedHasher, type LimitedHasher } from '../../src/limits/admission.ts'
import { openMail } from '../../src/mail/sender.ts'
import { createMailComposer } from '../../src/member/compose-mail.ts'
import { createCompany } from '../../src/operator/companies.ts'
import { createUser } from '../../src/operator/users.ts'
import type { System } from '../../src/system.ts'
import { addFirstKey } from '../../src/token/key-rotation.ts'
import { whenDone } from './cleanup.ts'
import { type Answer, checkApi, checkPlatform } from './contract.ts'
import { PASSWORD } from './environment.ts'
import { startMailbox } from './mailbox.ts'
import { asRole, databaseUrl } from './postgres.ts'

export type { Answer } from './contract.ts'
export { NEW_PASSWORD, PASSWORD } from './environment.ts'

/** Running services for tests, built as in server.ts. Most files share one. Others have their own database. */

export interface Clock extends System {
  /** Moves time for all instances that share the clock, or sets it back. Otherwise the clock stands still. */
  advance(seconds: number): void
}

export function createClock(): Clock {
  let now = Date.now()
  let elapsed = 0
  return {
    now: () => now,
    elapsed: () => elapsed,
    randomBytes,
    advance(seconds) {
      now += seconds * 1000
      elapsed += Math.max(0, seconds) * 1000
    },
  }
}

interface Call {
  method?: string
  /** Bearer token. */
  token?: string | undefined
  /** The value of the session cookie. */
  cookie?: string
  /** Undefined headers are left out. */
  headers?: Answer['headers']
  json?: unknown
  /** Sent unchanged. */
  body?: string | Buffer
  /** The index of the instance that receives the request, by default the first. */
  at?: number
}

export interface Person {
  companyId: string
  userId: string
  email: string
  password: string
}

export const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))

/** The master keys of every service, for tests that run the project's programs on its database. */
export const MASTER_KEYS = `test:${Buffer.alloc(32, 7).toString('base64')}`
const estimates = new Map(
  inject('estimates').map(([password, estimate]) => [password, Promise.resolve(estimate)]),
)
/** The least work that argon2 allows. Tests of hashing and sign-in use the service's parameters. */
const CHEAP = { memoryCost: 8, timeCost: 1, parallelism: 1 }
const sharedHasher = await createCheapHasher()
const operatorHashers = [await createOperatorHasher(CHEAP), await createOperatorHasher()]

export async function createCheapHasher(concurrency?: number, maxWaiting?: number): Promise<LimitedHasher> {
  const hasher = await createLimitedHasher(concurrency, maxWaiting, CHEAP)
  const { admit } = hasher
  return Object.assign(hasher, { admit: (applicant: Applicant) => estimatingOnce(admit(applicant)) })
}

/** Nearly all test users share one password, so it is hashed once. */
async function createOperatorHasher(parameters?: HashParameters) {
  const hasher = await createPasswordHasher(parameters)
  const known = await hasher.hash(PASSWORD)
  const hash = async (password: string) => (password === PASSWORD ? known : await hasher.hash(password))
  return { ...estimatingOnce(hasher), hash, known }
}

/**
 * Estimates each password once, unless it contains a hint. Estimates take long, because they have the lowest
 * priority. Tests of the estimates use their own hasher.
 */
function estimatingOnce(hasher: PasswordHasher): PasswordHasher {
  async function estimate(password: string, hints: string[]) {
    const plain = password.toLowerCase()
    if (hints.some((hint) => plain.includes(hint.toLowerCase())))
      return await hasher.estimate(password, hints)
    const estimating = estimates.get(password) ?? hasher.estimate(password, [])
    estimates.set(password, estimating)
    return await estimating
  }
  return { ...hasher, estimate }
}

/** A hasher with the same parameters as the service's. */
function operatorHasherOf(hasher: LimitedHasher): PasswordHasher {
  const { isOutdated } = hasher.admit({ network: 'operator', isKnown: true })
  const found = operatorHashers.find(({ known }) => !isOutdated(known))
  if (!found) throw new Error('no operator of tests hashes with these parameters')
  return found
}

/** A hasher that counts its calls. */
export async function createCountingHasher(limited?: LimitedHasher) {
  const hasher = limited ?? (await createCheapHasher())
  const counting = {
    ...hasher,
    verified: 0,
    hashed: 0,
    /** Runs before each verification, to simulate events while a password waits for its turn. */
    beforeVerifying: undefined as (() => Promise<void>) | undefined,
    admit(applicant: Applicant): PasswordHasher {
      const { hash, verify, ...others } = hasher.admit(applicant)
      return {
        ...others,
        async verify(phc, password) {
          await counting.beforeVerifying?.()
          counting.verified += 1
          return await verify(phc, password)
        },
        async hash(password) {
          counting.hashed += 1
          return await hash(password)
        },
      }
    },
  }
  return counting
}

/** The statements on a database that wait for a lock. */
export async function countWaiting(db: Executor): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`.execute(db)
  return rows[0]?.count ?? 0
}

/** For timeouts that a busy machine must not reach. */
const PATIENT = 30

export type TestService = Awaited<ReturnType<typeof startTestService>>['service']

interface TestServiceOptions {
  instances?: number
  env?: Record<string, string>
  /** Variables that differ from `env`, by the index of the instance. */
  envs?: Record<string, string>[]
  /** A clock for each instance. By default, they share one. */
  clocks?: Clock[]
  /** Shared by the instances. By default, all services of a test file share a cheap one. */
  hasher?: LimitedHasher
  /**
   * Multiplies the waits of requests for connections, locks, and statements. A busy machine must not end a race that
   * a test arranges. Tests of the waits themselves use 1.
   */
  timeoutScale?: number
  /** The longest duration of a request, because a busy machine is slow. */
  answerWithinMs?: number
  /** The name of the database to copy, by default one without companies. */
  template?: string
  /** An existing database to use instead of a copy. It is not dropped. */
  url?: string
}

/** A service for one file or test, with its own database. */
export async function openTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const { service, close } = await startTestService(options)
  whenDone(close)
  return service
}

let shared: ReturnType<typeof startSharedService> | undefined

/**
 * This worker's service, with two instances and a mailbox, for files that need no options. Companies are isolated, so
 * its tests share everything else. Its clock only moves forward.
 */
export async function useSharedService() {
  shared ??= startSharedService()
  const { service, mailbox } = await shared
  service.logs.length = 0
  return { service, mailbox }
}

async function startSharedService() {
  const { mailbox } = await startMailbox()
  const { service } = await startTestService({ instances: 2, env: { SMTP_URL: mailbox.url } })
  const { advance } = service.clock
  service.clock.advance = (seconds) => {
    if (seconds < 0) throw new Error('the clock of the shared service only moves forward')
    advance(seconds)
  }
  return { service, mailbox }
}

async function startTestService({
  instances = 1,
  env = {},
  envs = [],
  clocks = [],
  hasher = sharedHasher,
  timeoutScale = PATIENT,
  answerWithinMs = 180_000,
  template = inject('template'),
  url: given,
}: TestServiceOptions = {}) {
  const name = `${inject('template')}_${randomBytes(6).toString('hex')}`
  const serverUrl = inject('serverUrl')
  const url = given ?? databaseUrl(serverUrl, name)
  if (!given) {
    await runStatement(
      serverUrl,
      `create database ${name} template ${template} owner gatehouse_owner strategy file_copy`,
    )
    // A copied database counts as restored.
    await runStatement(url, 'select begin_event_era(timeline) from event_feed')
  }
  const clock = createClock()
  const logStream = new PassThrough()
  const logs: string[] = []
  logStream.on('data', (chunk) => logs.push(String(chunk)))

  const dataDir = await mkdtemp(join(inject('folder'), 'service-'))
  const environment = {
    DATABASE_URL: url,
    MASTER_KEYS,
    RATE_LIMIT_SCALE: '1000',
    DATA_DIR: dataDir,
    ...env,
  }
  const config = loadConfig(environment)
  const superuser = connect({ url, poolSize: config.databasePoolSize, timeoutScale: PATIENT })
  const running = await Promise.all(
    Array.from({ length: instances }, async (_, index) => {
      const config = loadConfig({ ...environment, ...envs[index] })
      const system = clocks[index] ?? clock
      const connection = connect({
        url: given ?? asRole(url, 'gatehouse'),
        poolSize: config.databasePoolSize,
        timeoutScale,
      })
      await addFirstKey(superuser.db, { sealer: createSealer(config.masterKeys, randomBytes), system })
      const registry = createRegistry()
      const { db, auditDb } = connection
      const { app, platform } = await buildApp({
        config,
        db,
        auditDb,
        system,
        hasher,
        registry,
        logStream,
        answerWithinMs,
      })
      const place = { host: '127.0.0.1', port: 0 }
      const [address, platformAddress] = [await app.listen(place), await platform.listen(place)]
      const mail = openMail({
        config,
        db,
        system,
        registry,
        log: app.log,
        compose: createMailComposer({ db, config, system }),
      })
      mail.start()
      return { app, platform, connection, registry, address, platformAddress, mail }
    }),
  )
  const [first] = running
  if (!first) throw new Error('a service has at least one instance')
  const { db } = superuser
  const context = { db, config, hasher: operatorHasherOf(hasher), system: clock }
  const dispatcher = new Agent({ connections: 128, pipelining: 1 })

  async function close() {
    await dispatcher.destroy()
    for (const { app, platform, connection, mail } of running) {
      await Promise.all([app.close(), platform.close(), mail.stop()])
      await connection.close()
    }
    await superuser.close()
    if (!given) await runStatement(serverUrl, `drop database ${name} with (force)`)
    await rm(dataDir, { recursive: true })
  }

  const instanceAt = (at = 0) => {
    const instance = running[at]
    if (!instance) throw new Error(`there is no instance ${at}`)
    return instance
  }

  /** Sends a request to a path below /api. */
  const call = async (path: string, options: Call = {}) => {
    const answer = await exchange(`${instanceAt(options.at).address}/api${path}`, options)
    checkApi(options.method ?? 'POST', path, answer)
    return answer
  }

  /** Sends a request to a path of the platform listener. */
  const ask = async (path: string, options: Call = {}) => {
    const answer = await exchange(`${instanceAt(options.at).platformAddress}${path}`, options)
    checkPlatform(options.method ?? 'POST', path, answer)
    return answer
  }

  async function exchange(url: string, options: Call): Promise<Answer> {
    const { method = 'POST', token, cookie, headers, json, body } = options
    const answer = await request(url, {
      method,
      dispatcher,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(cookie !== undefined && { cookie: `__Host-session=${cookie}` }),
        ...(json !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      body: json !== undefined ? JSON.stringify(json) : (body ?? null),
    })
    const text = await answer.body.text()
    const isJson = /[/+]json/.test(String(answer.headers['content-type']))
    const { statusCode: status, headers: given } = answer
    return { status, headers: given, body: isJson && text !== '' ? JSON.parse(text) : text }
  }

  /** The value of a metric of the first instance, such as `gatehouse_mail_waiting`, or NaN. */
  async function metric(name: string): Promise<number> {
    const lines = (await first?.registry.metrics())?.split('\n')
    return Number(lines?.find((line) => line.startsWith(`${name} `))?.slice(name.length))
  }

  let count = 0
  async function addCompany(
    options: { plan?: string; name?: string; adminName?: string } = {},
  ): Promise<Person> {
    count += 1
    const email = `admin${count}@company.example`
    const company = { name: `Company ${count}`, ...options, adminEmail: email, password: PASSWORD }
    const { companyId, userId } = await createCompany(context, company)
    return { companyId, userId, email, password: PASSWORD }
  }

  async function handleOf({ companyId }: { companyId: string }): Promise<string> {
    const company = await db
      .selectFrom('companies')
      .select('handle')
      .where('company_id', '=', companyId)
      .executeTakeFirst()
    return company?.handle ?? ''
  }

  async function addUser(
    { companyId }: { companyId: string },
    role = 'viewer',
    options: { email?: string; password?: string } = {},
  ): Promise<Person> {
    count += 1
    const user = { email: `user${count}@company.example`, password: PASSWORD, ...options }
    const { userId } = await createUser(context, companyId, { ...user, role })
    return { companyId, userId, ...user }
  }

  const login = ({ companyId, email, password }: Omit<Person, 'userId'>, options: Call = {}) =>
    call('/auth/login', { json: { companyId, email, password }, ...options })

  /** Signs in and returns the response's body. Throws if the sign-in is refused. */
  async function loginAs(person: Omit<Person, 'userId'>, options: Call = {}) {
    const answer = await login(person, options)
    if (answer.status !== 200) throw new Error(`sign-in answered ${answer.status} ${answer.body.code}`)
    return answer.body
  }

  /** Signs in by cookie, as a browser does, and returns the cookie's value. */
  async function cookieOf(person: Person, options: Call = {}): Promise<string> {
    const { headers } = await login(person, { headers: { 'x-session-mode': 'cookie' }, ...options })
    const [, value] = /^__Host-session=([^;]+)/.exec(String(headers['set-cookie'])) ?? []
    if (!value) throw new Error('sign-in set no cookie')
    return value
  }

  const refresh = (refreshToken: string, { key, ...options }: Call & { key?: string } = {}) =>
    call('/auth/refresh', {
      token: refreshToken,
      ...(key !== undefined && { headers: { 'idempotency-key': key } }),
      ...options,
    })

  const getSession = (credential: Call) => call('/auth/session', { method: 'GET', ...credential })

  async function newSecret(admin: Person): Promise<string> {
    const { accessToken } = await loginAs(admin)
    const { body } = await call('/auth/webhook-secret/regenerate', { token: accessToken })
    return body.secret
  }

  /** Sends a body signed by the official library, at the time of the shared clock. */
  function send(
    companyId: string,
    secret: string,
    payload: unknown,
    options: Call & { id?: string; query?: string } = {},
  ) {
    const { id = `msg_${randomBytes(9).toString('hex')}`, query = '', headers, ...rest } = options
    const body = typeof payload === 'string' ? payload : JSON.stringify(payload)
    const at = new Date(clock.now())
    return call(`/events/ingest${query}`, {
      body,
      headers: {
        'content-type': 'application/json',
        'x-company-id': companyId,
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
        'webhook-signature': new Webhook(secret).sign(id, at, body),
        ...headers,
      },
      ...rest,
    })
  }

  const service = {
    config,
    clock,
    /** Of a superuser, who can arrange and read everything. */
    db,
    context,
    url,
    logs,
    addresses: running.map(({ address }) => address),
    platformAddresses: running.map(({ platformAddress }) => platformAddress),
    apps: running.map(({ app }) => app),
    platforms: running.map(({ platform }) => platform),
    /** Senders of emails. */
    senders: running.map(({ mail }) => mail),
    connections: running.map(({ connection }) => connection),
    registries: running.map(({ registry }) => registry),
    call,
    ask,
    metric,
    login,
    loginAs,
    cookieOf,
    getSession,
    refresh,
    addCompany,
    handleOf,
    addUser,
    newSecret,
    send,
  }
  return { service, close }
}
