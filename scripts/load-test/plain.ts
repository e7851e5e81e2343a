import crypto from 'node:crypto'
import jwt from '@fastify/jwt'
import { verify } from '@node-rs/argon2'
import fastify, { type FastifyRequest } from 'fastify'
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'

/** The baseline for gatehouse: a service from one afternoon, without limits, audit trail, batches, or logs. */

interface Tables {
  users: { id: string; company_id: string; email: string; password_hash: string }
  sessions: { id: string; user_id: string; refresh_hash: Buffer; expires_at: Date; ended_at: Date | null }
  signing_secrets: { company_id: string; secret: Buffer }
  events: { company_id: string; id: string; type: string; occurred_at: string; data: string }
}

const TABLES = `
  create table users (id uuid primary key, company_id uuid not null, email text not null, password_hash text not null,
    unique (company_id, email));
  create table sessions (id uuid primary key, user_id uuid not null references users, refresh_hash bytea not null unique,
    expires_at timestamptz not null, ended_at timestamptz);
  create table signing_secrets (company_id uuid primary key, secret bytea not null);
  create table events (company_id uuid, id text, type text not null, occurred_at timestamptz not null, data json not null,
    primary key (company_id, id))`

const DAY_MS = 86_400_000
const TOLERANCE_SECONDS = 300
const PERMISSIONS = ['events:read', 'risk:read']

type Event = { id?: string; type: string; occurredAt: string; data: object }

export const sha256 = (text: string) => crypto.createHash('sha256').update(text).digest()
export const inDays = (days: number) => new Date(Date.now() + days * DAY_MS)
export const newRefreshToken = () => crypto.randomBytes(32).toString('base64url')

export async function buildPlainService(databaseUrl: string) {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 10 })
  await pool.query(TABLES)
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
  const { privateKey, publicKey } = crypto.generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  })
  const app = fastify()
  await app.register(jwt, {
    secret: { private: privateKey, public: publicKey },
    sign: { algorithm: 'ES256', expiresIn: '1h' },
  })
  const signAccess = (sub: string, sid: string) => app.jwt.sign({ sub, sid })

  app.get('/', async () => ({ ok: true }))

  app.post('/api/auth/login', async (request, reply) => {
    const { companyId, email, password } = request.body as Record<'companyId' | 'email' | 'password', string>
    const user = await db
      .selectFrom('users')
      .select(['id', 'password_hash'])
      .where('company_id', '=', companyId)
      .where('email', '=', email)
      .executeTakeFirst()
    if (!user || !(await verify(user.password_hash, password))) return await reply.code(401).send({})
    const [id, refreshToken] = [crypto.randomUUID(), newRefreshToken()]
    const hashed = { refresh_hash: sha256(refreshToken), expires_at: inDays(7), ended_at: null }
    await db
      .insertInto('sessions')
      .values({ id, user_id: user.id, ...hashed })
      .execute()
    return { user: { email }, session: { id }, accessToken: signAccess(user.id, id), refreshToken }
  })

  app.get('/api/auth/session', async (request, reply) => {
    const { sid } = await request.jwtVerify<{ sid: string }>()
    const session = await db
      .selectFrom('sessions')
      .innerJoin('users', 'users.id', 'user_id')
      .select(['sessions.id', 'email', 'company_id', 'expires_at'])
      .where('sessions.id', '=', sid)
      .where('ended_at', 'is', null)
      .executeTakeFirst()
    if (!session) return await reply.code(401).send({})
    const { id, email, company_id: companyId, expires_at: expiresAt } = session
    return { session: { id, expiresAt }, user: { email, companyId }, permissions: PERMISSIONS }
  })

  app.post('/api/auth/refresh', async (request, reply) => {
    const refreshToken = newRefreshToken()
    const session = await db
      .updateTable('sessions')
      .set({ refresh_hash: sha256(refreshToken), expires_at: inDays(7) })
      .where('refresh_hash', '=', sha256(bearerOf(request)))
      .where('ended_at', 'is', null)
      .where('expires_at', '>', new Date())
      .returning(['id', 'user_id'])
      .executeTakeFirst()
    if (!session) return await reply.code(401).send({})
    const { id, user_id: userId } = session
    return { session: { id }, accessToken: signAccess(userId, id), refreshToken }
  })

  app.post('/api/auth/logout', async (request, reply) => {
    const { sid } = await request.jwtVerify<{ sid: string }>()
    await db.updateTable('sessions').set({ ended_at: new Date() }).where('id', '=', sid).execute()
    return await reply.code(204).send()
  })

  await app.register(async (signed) => {
    signed.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) =>
      done(null, body),
    )
    signed.post('/api/events/ingest', async (request, reply) => {
      const body = request.body as Buffer
      const companyId = String(request.headers['x-company-id'])
      const found = await db
        .selectFrom('signing_secrets')
        .select('secret')
        .where('company_id', '=', companyId)
        .executeTakeFirst()
      if (!found || !isSigned(request, body, found.secret)) return await reply.code(401).send({})
      const content = JSON.parse(body.toString()) as Event & { events?: Event[] }
      const events = content.events ?? [content]
      const rows = events.map(({ id, type, occurredAt, data }, n) => ({
        company_id: companyId,
        id: id ?? `${request.headers['webhook-id']}:${n}`,
        type,
        occurred_at: occurredAt,
        data: sql<string>`${JSON.stringify(data)}::json`,
      }))
      const { numInsertedOrUpdatedRows: inserted } = await db
        .insertInto('events')
        .values(rows)
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirstOrThrow()
      const accepted = Number(inserted)
      return await reply.code(202).send({ accepted, duplicates: rows.length - accepted })
    })
  })
  return { app, db, signAccess }
}

const bearerOf = ({ headers }: FastifyRequest) => headers.authorization?.slice('Bearer '.length) ?? ''
function isSigned({ headers }: FastifyRequest, body: Buffer, secret: Buffer): boolean {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature } = headers
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) return false
  const tag = crypto.createHmac('sha256', secret).update(`${id}.${timestamp}.`).update(body).digest()
  const given = Buffer.from(String(signature).slice('v1,'.length), 'base64')
  return given.length === tag.length && crypto.timingSafeEqual(given, tag)
}
