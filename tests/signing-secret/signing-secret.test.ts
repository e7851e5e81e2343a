import { sql } from 'kysely'
import { expect, test, vi } from 'vitest'
import { changeUser } from '../../src/company/service.ts'
import { endUserSessions } from '../../src/session/ending-repository.ts'
import { selectAudit } from '../support/audit.ts'
import { expectProblem } from '../support/problem.ts'
import {
  type Answer,
  countWaiting,
  openTestService,
  type Person,
  times,
  useSharedService,
} from '../support/test-service.ts'

const { service } = await useSharedService()

const STATUS = '/auth/webhook-secret/status'
const REGENERATE = '/auth/webhook-secret/regenerate'
const EVENT = { type: 'a.b', data: {} }

async function openCompany(of = service) {
  const admin = await of.addCompany()
  const { accessToken: token } = await of.loginAs(admin)
  return {
    admin,
    token,
    status: async () => (await of.call(STATUS, { token })).body,
    regenerate: (json?: unknown, at = 0) =>
      of.call(REGENERATE, { token, at, ...(json !== undefined && { json }) }),
    send: (secret: string, at = 0, payload: unknown = EVENT) =>
      of.send(admin.companyId, secret, payload, { at }),
  }
}

async function rowOf({ companyId }: Person) {
  const rows = service.db.selectFrom('signing_secrets').selectAll().where('company_id', '=', companyId)
  return await rows.executeTakeFirstOrThrow()
}

async function seal({ companyId }: Person, sealed: string) {
  const row = service.db.updateTable('signing_secrets').where('company_id', '=', companyId)
  await row.set({ sealed_secret: sealed }).execute()
}

test("the secret's status has version and creator, never the secret (ASVS 14.2.6, 15.3.1)", async () => {
  const { admin, status, regenerate } = await openCompany()
  const nothing = { configured: false, version: null, hint: null, createdBy: null, lastUsedAt: null }
  expect(await status()).toMatchObject(nothing)
  const { body: first } = await regenerate()
  expect(first).toMatchObject({ version: 1, previousInvalidatedAt: null })
  const second = await service.addUser(admin, 'admin')
  for (const { userId, email } of [admin, second]) {
    service.clock.advance(90)
    const { accessToken: token } = await service.loginAs({ ...admin, email })
    const createdAt = new Date(service.clock.now()).toISOString()
    const { body: made } = await service.call(REGENERATE, { token, at: 1 })
    expect(made).toMatchObject({ createdAt, previousInvalidatedAt: createdAt })
    expect(made.hint).toBe(`…${made.secret.slice(-4)}`)
    const shown = await status()
    expect(shown).toEqual({
      configured: true,
      version: made.version,
      hint: made.hint,
      algorithm: 'HMAC-SHA256',
      createdAt,
      createdBy: { id: userId, email },
      lastUsedAt: null,
    })
    expect(JSON.stringify(shown)).not.toContain(made.secret.slice(6, -4))
  }
})

test("the secret's status has the last use of the current version", async () => {
  const { status, regenerate, send } = await openCompany()
  const { body: first } = await regenerate()
  const minute = () => new Date(Math.floor(service.clock.now() / 60_000) * 60_000).toISOString()
  const lastUse = async () => (await status()).lastUsedAt

  for (const [at, payload] of [EVENT, { events: [EVENT] }, EVENT].entries()) {
    expect((await send(first.secret, at % 2, payload)).status).toBe(202)
    expect(await lastUse()).toBe(minute())
    service.clock.advance(61)
  }
  // An invalid signature does not count as a use.
  const before = await lastUse()
  expect((await send(`whsec_${Buffer.alloc(32).toString('base64')}`)).status).toBe(401)
  expect(await lastUse()).toBe(before)

  const { body: second } = await regenerate()
  expect((await send(first.secret, 1)).status).toBe(401)
  expect(await lastUse()).toBeNull()
  expect((await send(second.secret, 1)).status).toBe(202)
  expect(await lastUse()).toBe(minute())
})

test('a use that failed with 503 is recorded with the next one', async () => {
  const service = await openTestService({ instances: 2, timeoutScale: 1 })
  const { admin, status, regenerate, send } = await openCompany(service)
  const { body: made } = await regenerate()
  const holder = await service.db.startTransaction().execute()
  await sql`select from signing_secrets where company_id = ${admin.companyId} for update`.execute(holder)
  expect((await send(made.secret, 1)).status).toBe(503)
  await holder.commit().execute()
  expect((await send(made.secret, 1)).status).toBe(202)
  expect((await status()).lastUsedAt).not.toBeNull()
})

test('a session that ends while waiting gets no secret (ASVS 8.3.2, 15.4.2)', async () => {
  const { admin, regenerate } = await openCompany()
  await regenerate()
  const { companyId } = admin
  const [ended, demoted] = [await service.addUser(admin, 'admin'), await service.addUser(admin, 'admin')]
  const tokens = [(await service.loginAs(ended)).accessToken, (await service.loginAs(demoted)).accessToken]
  const waiting: Promise<Answer>[] = []
  await service.db.transaction().execute(async (tx) => {
    await sql`select from signing_secrets where company_id = ${companyId} for update`.execute(tx)
    waiting.push(...tokens.map((token, at) => service.call(REGENERATE, { token, at })))
    await vi.waitUntil(async () => (await countWaiting(service.db)) === 2, { timeout: 100_000 })
    await endUserSessions(tx, companyId, ended.userId, 'password_changed')
    await changeUser(tx, companyId, demoted.userId, { role: 'viewer' })
  })
  const [first, second] = await Promise.all(waiting)
  expect([first?.body.code, second?.body.code]).toEqual(['session_ended', 'permission_denied'])
  expect((await rowOf(admin))?.version).toBe(1)
})

test('each regeneration creates 256 random bits and an audit entry (ASVS 11.5.1, 16.3.3)', async () => {
  const { admin, regenerate } = await openCompany()
  const occurredAt = new Date(service.clock.now())
  const made = [await regenerate(), await regenerate({}), await regenerate({ expectedVersion: 2 })].map(
    ({ body }) => body,
  )
  expect((await regenerate({ expectedVersion: 2 })).status).toBe(409)
  expect(made.map(({ version }) => version)).toEqual([1, 2, 3])
  for (const { secret } of made) expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect(new Set(made.map(({ secret }) => secret)).size).toBe(3)
  const entries = await selectAudit(service.db)
    .select(['outcome', 'actor', 'occurred_at', 'ip_address'])
    .where('company_id', '=', admin.companyId)
    .where('action', '=', 'signing_secret_regenerate')
    .execute()
  const about = { outcome: 'done', actor: admin.userId, occurred_at: occurredAt, ip_address: '127.0.0.1' }
  expect(entries).toEqual(times(3, () => about))
})

test('a regeneration replaces only the expected version (ASVS 2.3.4)', async () => {
  const { status, regenerate, send } = await openCompany()
  const expectConflict = async (expectedVersion: number) =>
    expectProblem(await regenerate({ expectedVersion }, 1), [409, 'version_conflict'])
  await expectConflict(1)
  expect((await status()).configured).toBe(false)
  const { body: first } = await regenerate({ expectedVersion: 0 })
  for (const version of [0, 2, 2 ** 31 - 1]) await expectConflict(version)
  expect((await send(first.secret)).status).toBe(202)
  const { body: second } = await regenerate({ expectedVersion: 1 })
  await expectConflict(1)
  expect((await send(second.secret)).status).toBe(202)
})

test('concurrent regenerations create consecutive versions, and the last one works (ASVS 2.3.4, 15.4.2)', async () => {
  const { status, regenerate, send } = await openCompany()
  const answers = await Promise.all(times(20, (index) => regenerate({}, index % 2)))
  expect(answers.map(({ status }) => status)).toEqual(times(20, () => 200))
  const byVersion = answers.map(({ body }) => body).sort((one, other) => one.version - other.version)
  expect(byVersion.map(({ version }) => version)).toEqual(times(20, (index) => index + 1))
  expect(byVersion.filter(({ previousInvalidatedAt }) => previousInvalidatedAt === null)).toHaveLength(1)
  const outcomes = await Promise.all(byVersion.map(({ secret }, index) => send(secret, index % 2)))
  expect(outcomes.map(({ status }) => status)).toEqual(times(20, (index) => (index === 19 ? 202 : 401)))
  expect(await status()).toMatchObject({ version: 20, hint: byVersion[19]?.hint })
})

test.each([0, 1])(
  'only one of several concurrent regenerations replaces version %i (ASVS 15.4.2)',
  async (expectedVersion) => {
    const { status, regenerate, send } = await openCompany()
    for (let version = 0; version < expectedVersion; version += 1) await regenerate()
    const answers = await Promise.all(times(20, (index) => regenerate({ expectedVersion }, index % 2)))
    const winners = answers.filter(({ status }) => status === 200)
    expect(winners).toHaveLength(1)
    expect(answers.filter(({ body }) => body.code === 'version_conflict')).toHaveLength(19)
    expect((await status()).version).toBe(expectedVersion + 1)
    for (const { body } of winners) expect((await send(body.secret, 1)).status).toBe(202)
  },
)

test('a stored secret that does not open returns 503 until replaced (ASVS 8.4.1, 11.2.5, 11.3.3)', async () => {
  const { admin, status, regenerate, send } = await openCompany()
  const { body: first } = await regenerate()
  const previous = (await rowOf(admin)).sealed_secret
  const { body: second } = await regenerate()
  const sealed = (await rowOf(admin)).sealed_secret
  const other = await openCompany()
  const { body: theirs } = await other.regenerate()
  const ofOther = (await rowOf(other.admin)).sealed_secret
  for (const stored of [flipBit(sealed), previous, ofOther]) {
    await seal(admin, stored)
    for (const [at, { secret }] of [first, second, theirs].entries()) {
      const answer = await send(secret, at % 2)
      expectProblem(answer, [503, 'unavailable'])
      expect(answer.headers['retry-after']).toBe('60')
    }
  }
  expect((await status()).hint).toBe(second.hint)
  await seal(admin, sealed)
  expect((await send(second.secret)).status).toBe(202)
  await seal(admin, flipBit(sealed))
  const { body: next } = await regenerate()
  for (const at of [0, 1]) expect((await send(next.secret, at)).status).toBe(202)
})

function flipBit(sealed: string) {
  const [id, encoded = '', ...rest] = sealed.split('.')
  const bytes = Buffer.from(encoded, 'base64url')
  bytes.writeUInt8(bytes.readUInt8(20) ^ 1, 20)
  return [id, bytes.toString('base64url'), ...rest].join('.')
}
