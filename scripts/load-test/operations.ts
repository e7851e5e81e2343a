import { createHmac, randomBytes } from 'node:crypto'
import { verify } from '@node-rs/argon2'
import pg from 'pg'
import { Pool } from 'undici'
import { createPasswordHasher } from '../../src/crypto/password.ts'
import { Failure, type Operation } from './drive.ts'
import type { LiveSession, Person } from './target.ts'

/** What virtual users do: requests to the service, each with the check of its answer, and what they are held against. */

interface Request {
  method: 'GET' | 'POST'
  path: string
  token?: string
  headers?: Record<string, string>
  body?: string
}

/** Sends a request and returns the JSON that it was answered with. @throws Failure */
type Ask = (expected: number, request: Request) => Promise<Answer>
// biome-ignore lint/suspicious/noExplicitAny: each operation checks the form of the answer that it expects
type Answer = any

export interface Client {
  ask: Ask
  close(): Promise<void>
}

/** What is not answered by then is an error. */
const MAX_WAIT_MS = 30_000

export function openClient(url: string, connections: number): Client {
  const pool = new Pool(url, {
    connections,
    pipelining: 1,
    headersTimeout: MAX_WAIT_MS,
    bodyTimeout: MAX_WAIT_MS,
  })
  return {
    async ask(expected, { method, path, token, headers, body }) {
      const { statusCode, body: answer } = await pool.request({
        method,
        path,
        headers: token === undefined ? (headers ?? null) : { authorization: `Bearer ${token}`, ...headers },
        body: body ?? null,
      })
      const text = await answer.text()
      if (statusCode !== expected) throw new Failure(`${statusCode} ${codeOf(text)}`.trimEnd())
      return text === '' ? null : JSON.parse(text)
    },
    close: () => pool.destroy(),
  }
}

/** The code of problem details, or nothing for what is none. */
function codeOf(text: string): string {
  const [, code = ''] = /"code":"([a-z_]+)"/.exec(text) ?? []
  return code
}

function expect(holds: boolean, what: string): void {
  if (!holds) throw new Failure(`wrong answer: ${what}`, true)
}

const JSON_TYPE = { 'content-type': 'application/json' }

export function signIn({ ask }: Client, people: Person[]): Operation {
  let turn = Math.floor(Math.random() * people.length)
  return async () => {
    turn = (turn + 1) % people.length
    const person = people[turn]
    const { user, accessToken } = await ask(200, {
      method: 'POST',
      path: '/api/auth/login',
      headers: JSON_TYPE,
      body: JSON.stringify(person),
    })
    expect(user.email === person?.email && accessToken !== undefined, 'sign-in of somebody else')
  }
}

/** Asks who one is, with each session in turn. */
export function checkSession(client: Client, sessions: LiveSession[]): Operation {
  let turn = 0
  return async () => {
    turn = (turn + 1) % sessions.length
    const session = sessions[turn]
    if (!session) return
    const { session: answered, permissions } = await client.ask(200, {
      method: 'GET',
      path: '/api/auth/session',
      token: await freshAccessToken(client, session),
    })
    expect(answered.id === session.id && permissions.length > 0, 'a session check of another session')
  }
}

/** Signs in and returns the session. */
export async function openSession({ ask }: Client, person: Person): Promise<LiveSession> {
  const { session, accessToken, refreshToken } = await ask(200, {
    method: 'POST',
    path: '/api/auth/login',
    headers: JSON_TYPE,
    body: JSON.stringify(person),
  })
  return { id: session.id, accessToken, refreshToken }
}

/** Rotates each session's token in turn. */
export function refresh(client: Client, sessions: LiveSession[]): Operation {
  let turn = 0
  return async () => {
    turn = (turn + 1) % sessions.length
    const session = sessions[turn]
    if (session) await rotate(client, session)
  }
}

async function rotate({ ask }: Client, session: LiveSession): Promise<void> {
  const answer = await ask(200, { method: 'POST', path: '/api/auth/refresh', token: session.refreshToken })
  const isSuccessor = answer.refreshToken !== session.refreshToken && answer.session.id === session.id
  expect(isSuccessor, 'a refresh without a successor')
  session.refreshToken = answer.refreshToken
  session.accessToken = answer.accessToken
  tokenTimes.set(session, Date.now())
}

/** Ends each session once. */
export function logout({ ask }: Client, sessions: LiveSession[]): Operation {
  return () => {
    const session = sessions.pop()
    if (!session) return null
    return ask(204, { method: 'POST', path: '/api/auth/logout', token: session.accessToken })
  }
}

const tokenTimes = new WeakMap<LiveSession, number>()
const TOKEN_USE_MS = 800_000

/** A long run outlasts access tokens. */
async function freshAccessToken(client: Client, session: LiveSession): Promise<string> {
  const since = tokenTimes.get(session)
  if (since === undefined) tokenTimes.set(session, Date.now())
  else if (Date.now() - since > TOKEN_USE_MS) await rotate(client, session)
  return session.accessToken
}

/** Makes the company's signing secret; its sender signs with it. */
export async function newSigningKey({ ask }: Client, session: LiveSession): Promise<Buffer> {
  const { secret } = await ask(200, {
    method: 'POST',
    path: '/api/auth/webhook-secret/regenerate',
    token: session.accessToken,
  })
  return toSigningKey(secret)
}

export function toSigningKey(secret: string): Buffer {
  return Buffer.from(secret.slice('whsec_'.length), 'base64')
}

/** About 500 bytes. */
const EVENT = {
  type: 'payment.created',
  occurredAt: '2026-01-01T12:00:00.000Z',
  data: {
    amount: 1250,
    currency: 'EUR',
    card: { bin: '411111', last4: '1111', country: 'DE', funding: 'credit' },
    customer: { id: 'cus_9s6XKzkNRiz8i3', email: 'ada@customer.example', createdAt: '2024-05-05T05:05:05Z' },
    device: { ip: '203.0.113.7', userAgent: 'Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0' },
    shipping: { line1: '1 Example Street', city: 'Berlin', postalCode: '10115', country: 'DE' },
  },
}
const EVENT_JSON = JSON.stringify(EVENT)
/** Names the events of this run apart from those of others on the same database. */
const RUN = randomBytes(6).toString('hex')
let senders = 0

/** Sends signed events, one a request or `batch` of them. */
export function ingest({ ask }: Client, companyId: string, key: Buffer, batch?: number): Operation {
  senders += 1
  const me = `${RUN}-${senders}`
  let count = 0
  const body = batch ? JSON.stringify({ events: Array.from({ length: batch }, () => EVENT) }) : EVENT_JSON
  const accepted = batch ?? 1
  return async () => {
    count += 1
    const id = `${me}-${count}`
    const timestamp = String(Math.floor(Date.now() / 1000))
    const tag = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
    const answer = await ask(202, {
      method: 'POST',
      path: '/api/events/ingest',
      headers: {
        ...JSON_TYPE,
        'x-company-id': companyId,
        'webhook-id': id,
        'webhook-timestamp': timestamp,
        'webhook-signature': `v1,${tag}`,
      },
      body,
    })
    expect(answer.accepted === accepted && answer.duplicates === 0, 'events that were not all accepted')
  }
}

/** A day's traffic: mostly events and session checks, some refreshes, few sign-ins. */
export function mixed(parts: { share: number; operation: Operation }[]): Operation {
  return () => {
    let at = Math.random()
    const part = parts.find(({ share }) => {
      at -= share
      return at < 0
    })
    return (part ?? parts[0])?.operation() ?? null
  }
}

/* What the service is held against. */

/** One argon2id verification with the service's parameters, and nothing else. */
export async function rawArgon2(count: number): Promise<Operation[]> {
  const phc = await (await createPasswordHasher(1)).hash('a password')
  const operation = async () => expect(await verify(phc, 'a password'), 'argon2id')
  return Array.from({ length: count }, () => operation)
}

/** A request to the smallest service that Fastify can be. */
export function smallestAnswer({ ask }: Client, count: number): Operation[] {
  const operation = async () => {
    const answer = await ask(200, { method: 'GET', path: '/' })
    expect(answer.ok === true, 'another answer than the smallest')
  }
  return Array.from({ length: count }, () => operation)
}

const ROWS = 10_000

/** Makes the tables that single statements are measured on: like the service's own, indexes included. */
export async function prepareTables(databaseUrl: string, companyId: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    await client.query(
      'create table if not exists load_test_sessions (like sessions including all) with (fillfactor = 80)',
    )
    await client.query('create table if not exists load_test_events (like events including all)')
    const { rows } = await client.query<{ session_id: string }>(
      `insert into load_test_sessions (company_id, session_id, user_id, kind, created_at, issued_at, expires_at, max_expires_at)
       select $1::uuid, gen_random_uuid(), $1::uuid, 'token', now(), now(), now(), now() from generate_series(1, $2::int)
       returning session_id`,
      [companyId, ROWS],
    )
    return rows.map(({ session_id: id }) => id)
  } finally {
    await client.end()
  }
}

/** What was made on a database that goes on to be used. */
async function dropTables(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    await client.query('drop table if exists load_test_sessions, load_test_events')
  } finally {
    await client.end()
  }
}

/** One prepared statement after the other, a connection for each virtual user. */
async function statements(
  databaseUrl: string,
  count: number,
  next: (user: number) => () => { name: string; text: string; values: unknown[]; rows: number },
) {
  const clients = await Promise.all(
    Array.from({ length: count }, async () => {
      const client = new pg.Client({ connectionString: databaseUrl })
      await client.connect()
      return client
    }),
  )
  const operations = clients.map((client, index): Operation => {
    const statement = next(index)
    return async () => {
      const { rows, ...query } = statement()
      const { rowCount } = await client.query(query)
      expect(rowCount === rows, 'another number of rows')
    }
  })
  return {
    operations,
    async close() {
      await Promise.all(clients.map((client) => client.end()))
      await dropTables(databaseUrl)
    },
  }
}

/** Updates one session a statement, by its key. */
export async function singleRowUpdates(
  databaseUrl: string,
  companyId: string,
  sessionIds: string[],
  count: number,
) {
  return await statements(databaseUrl, count, (user) => {
    let turn = user
    return () => {
      turn = (turn + count) % sessionIds.length
      return {
        name: 'update',
        text: `update load_test_sessions set generation = generation + 1, issued_at = $3, expires_at = $4, rotated_at = $3
          where company_id = $1 and session_id = $2 and ended_at is null`,
        values: [companyId, sessionIds[turn], new Date(), new Date()],
        rows: 1,
      }
    }
  })
}

/** Inserts the same event, `batch` rows a statement. */
export async function eventInserts(databaseUrl: string, companyId: string, count: number, batch: number) {
  const data = JSON.stringify(EVENT.data)
  return await statements(databaseUrl, count, (user) => {
    const me = `${RUN}-limit-${batch}-${user}`
    let made = 0
    return () => {
      made += batch
      const ids = Array.from({ length: batch }, (_, index) => `${me}-${made - index}`)
      const now = new Date()
      return batch === 1
        ? {
            name: 'insert',
            text: `insert into load_test_events (company_id, event_id, type, occurred_at, received_at, data)
              values ($1, $2, $3, $4, $5, $6)`,
            values: [companyId, ids[0], EVENT.type, EVENT.occurredAt, now, data],
            rows: 1,
          }
        : {
            name: 'insert many',
            text: `insert into load_test_events (company_id, event_id, type, occurred_at, received_at, data)
              select $1, i.id, i.type, i.at, $2, i.data from unnest($3::text[], $4::text[], $5::timestamptz[], $6::json[]) as i (id, type, at, data)`,
            values: [
              companyId,
              now,
              ids,
              ids.map(() => EVENT.type),
              ids.map(() => EVENT.occurredAt),
              ids.map(() => data),
            ],
            rows: batch,
          }
    }
  })
}
