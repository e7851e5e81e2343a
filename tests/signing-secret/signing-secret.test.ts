import { sql } from 'kysely'
import { describe, expect, test, vi } from 'vitest'
import { changeUser } from '../../src/company/service.ts'
import { endUserSessions } from '../../src/session/ending-repository.ts'
import { selectAudit } from '../support/audit.ts'
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
const SECRET = /^whsec_[A-Za-z0-9+/]{43}=$/

/** A company with an admin who is signed in. */
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

const rowOf = ({ companyId }: Person) =>
  service.db
    .selectFrom('signing_secrets')
    .selectAll()
    .where('company_id', '=', companyId)
    .executeTakeFirstOrThrow()

const seal = ({ companyId }: Person, sealed: string) =>
  service.db
    .updateTable('signing_secrets')
    .set({ sealed_secret: sealed })
    .where('company_id', '=', companyId)
    .execute()

const keyOf = (secret: string) => Buffer.from(secret.replace('whsec_', ''), 'base64')

describe('the status of the signing secret', () => {
  test('the status is all null without a secret', async () => {
    const { status } = await openCompany()
    expect(await status()).toEqual({
      configured: false,
      version: null,
      hint: null,
      algorithm: null,
      createdAt: null,
      createdBy: null,
      lastUsedAt: null,
    })
  })

  test('the status never has the secret (ASVS 14.2.6)', async () => {
    const { admin, status, regenerate } = await openCompany()
    const createdAt = new Date(service.clock.now()).toISOString()
    const { status: code, body: made } = await regenerate()
    expect([code, made]).toEqual([
      200,
      {
        secret: expect.stringMatching(SECRET),
        version: 1,
        hint: `…${made.secret.slice(-4)}`,
        createdAt,
        previousInvalidatedAt: null,
      },
    ])
    const shown = await status()
    expect(shown).toEqual({
      configured: true,
      version: 1,
      hint: made.hint,
      algorithm: 'HMAC-SHA256',
      createdAt,
      createdBy: { id: admin.userId, email: admin.email },
      lastUsedAt: null,
    })
    expect(JSON.stringify(shown)).not.toContain(made.secret.slice(6, -4))
  })

  test('the status has who created the current secret, and when', async () => {
    const { admin, status, regenerate } = await openCompany()
    await regenerate()
    const second = await service.addUser(admin, 'admin')
    const { accessToken: token } = await service.loginAs(second)
    service.clock.advance(90)
    const { body: made } = await service.call(REGENERATE, { token, at: 1 })
    expect(made.version).toBe(2)
    expect(made.previousInvalidatedAt).toBe(made.createdAt)
    expect(await status()).toMatchObject({
      version: 2,
      hint: made.hint,
      createdAt: new Date(service.clock.now()).toISOString(),
      createdBy: { id: second.userId, email: second.email },
    })
  })

  test('the status has the last use of the current version', async () => {
    const { status, regenerate, send } = await openCompany()
    const { body: first } = await regenerate()
    const minute = () => new Date(Math.floor(service.clock.now() / 60_000) * 60_000).toISOString()
    const lastUse = async () => (await status()).lastUsedAt

    for (const [at, payload] of [
      [0, EVENT],
      [1, { events: [EVENT] }],
      [0, EVENT],
      [1, EVENT],
    ] as const) {
      expect((await send(first.secret, at, payload)).status).toBe(202)
      expect(await lastUse()).toBe(minute())
      service.clock.advance(61)
    }
    // A refused signature is no use.
    const before = await lastUse()
    expect((await send(`whsec_${Buffer.alloc(32).toString('base64')}`)).status).toBe(401)
    expect(await lastUse()).toBe(before)

    const { body: second } = await regenerate()
    expect(await lastUse()).toBeNull()
    expect((await send(first.secret, 1)).status).toBe(401)
    expect(await lastUse()).toBeNull()
    expect((await send(second.secret, 1)).status).toBe(202)
    expect(await lastUse()).toBe(minute())
  })
})

test('a use that failed with 503 is recorded with the next', async () => {
  const service = await openTestService({ instances: 2, timeoutScale: 1 })
  const { admin, status, regenerate, send } = await openCompany(service)
  const { body: made } = await regenerate()
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  const { promise: locked, resolve: noteLocked } = Promise.withResolvers<void>()
  const blocker = service.db.transaction().execute(async (tx) => {
    await sql`select from signing_secrets where company_id = ${admin.companyId} for update`.execute(tx)
    noteLocked()
    await held
  })
  await locked
  expect((await send(made.secret, 1)).status).toBe(503)
  release()
  await blocker
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

describe('regenerate', () => {
  test('regenerate accepts no body, an empty one, {}, and expectedVersion', async () => {
    const { token, regenerate } = await openCompany()
    const type = { 'content-type': 'application/json' }
    expect((await regenerate()).body.version).toBe(1)
    expect((await service.call(REGENERATE, { token, headers: type, body: '' })).body.version).toBe(2)
    expect((await regenerate({})).body.version).toBe(3)
    expect((await regenerate({ expectedVersion: 3 })).body.version).toBe(4)
  })

  test.each([
    [{ expectedVersion: '1' }],
    [{ expectedVersion: -1 }],
    [{ expectedVersion: 2 ** 31 }],
    [{ expectedVersion: 1, secret: 'mine' }],
    [[]],
  ])('regenerate refuses the body %j (ASVS 2.2.1, 15.3.3)', async (json) => {
    const { status, regenerate, send } = await openCompany()
    const { body: made } = await regenerate()
    const answer = await regenerate(json)
    expect([answer.status, answer.body.code]).toEqual([400, 'invalid_request'])
    expect((await status()).version).toBe(1)
    expect((await send(made.secret)).status).toBe(202)
  })

  test('regenerate replaces only the expected version (ASVS 2.3.4)', async () => {
    const { status, regenerate, send } = await openCompany()
    const expectConflict = async (expectedVersion: number) => {
      const { status: code, body } = await regenerate({ expectedVersion }, 1)
      expect([code, body.code]).toEqual([409, 'version_conflict'])
    }
    await expectConflict(1)
    expect((await status()).configured).toBe(false)
    const { body: first } = await regenerate({ expectedVersion: 0 })
    expect(first.version).toBe(1)
    for (const version of [0, 2, 2 ** 31 - 1]) await expectConflict(version)
    expect((await send(first.secret)).status).toBe(202)
    const { body: second } = await regenerate({ expectedVersion: 1 })
    expect(second.version).toBe(2)
    await expectConflict(1)
    expect((await send(second.secret)).status).toBe(202)
  })

  test('each secret is 256 new random bits (ASVS 11.5.1)', async () => {
    const { regenerate } = await openCompany()
    const secrets = [await regenerate(), await regenerate()].map(({ body }) => body.secret)
    for (const secret of secrets) {
      expect(secret).toMatch(SECRET)
      expect(keyOf(secret)).toHaveLength(32)
    }
    expect(new Set(secrets).size).toBe(2)
  })

  test('the audit trail has each regeneration (ASVS 16.3.3)', async () => {
    const { admin, regenerate } = await openCompany()
    const occurredAt = new Date(service.clock.now())
    await regenerate()
    await regenerate()
    await regenerate({ expectedVersion: 1 })
    const entries = await selectAudit(service.db)
      .select(['action', 'outcome', 'actor', 'occurred_at', 'ip_address'])
      .where('company_id', '=', admin.companyId)
      .where('action', '=', 'signing_secret_regenerate')
      .execute()
    const entry = {
      action: 'signing_secret_regenerate',
      outcome: 'done',
      actor: admin.userId,
      occurred_at: occurredAt,
      ip_address: '127.0.0.1',
    }
    expect(entries).toEqual([entry, entry])
  })
})

describe('concurrent regenerations (ASVS 2.3.4, 15.4.2)', () => {
  test('concurrent regenerations make consecutive versions, and only the last works', async () => {
    const { status, regenerate, send } = await openCompany()
    const answers = await Promise.all(times(50, (index) => regenerate({}, index % 2)))
    expect(answers.map(({ status }) => status)).toEqual(times(50, () => 200))
    const byVersion = answers.map(({ body }) => body).sort((one, other) => one.version - other.version)
    expect(byVersion.map(({ version }) => version)).toEqual(times(50, (index) => index + 1))
    expect(byVersion.filter(({ previousInvalidatedAt }) => previousInvalidatedAt === null)).toHaveLength(1)
    const outcomes = await Promise.all(byVersion.map(({ secret }, index) => send(secret, index % 2)))
    expect(outcomes.map(({ status }) => status)).toEqual(times(50, (index) => (index === 49 ? 202 : 401)))
    expect(await status()).toMatchObject({ version: 50, hint: byVersion[49]?.hint })
  })

  test.each([0, 1])('only one concurrent regeneration replaces version %i', async (expectedVersion) => {
    const { status, regenerate, send } = await openCompany()
    for (let version = 0; version < expectedVersion; version += 1) await regenerate()
    const answers = await Promise.all(times(50, (index) => regenerate({ expectedVersion }, index % 2)))
    const winners = answers.filter(({ status }) => status === 200)
    expect(winners).toHaveLength(1)
    expect(answers.filter(({ body }) => body.code === 'version_conflict')).toHaveLength(49)
    expect((await status()).version).toBe(expectedVersion + 1)
    for (const { body } of winners) expect((await send(body.secret, 1)).status).toBe(202)
  })
})

describe('at rest, the secret', () => {
  test.each<[name: string, change: (sealed: string) => string]>([
    ['with a flipped bit', (sealed) => flip(sealed, 20)],
    ['empty', () => ''],
    ['under a master key that is not configured', (sealed) => sealed.replace('test.', 'gone.')],
  ])('a stored secret %s returns 503 until replaced (ASVS 11.2.5, 11.3.3)', async (_name, change) => {
    const { admin, status, regenerate, send } = await openCompany()
    const { body: made } = await regenerate()
    const good = (await rowOf(admin)).sealed_secret
    await seal(admin, change(good))
    await expectUnusable(send, made.secret)
    expect((await status()).hint).toBe(made.hint)
    await seal(admin, good)
    expect((await send(made.secret)).status).toBe(202)
    await seal(admin, change(good))
    const { body: next } = await regenerate()
    for (const at of [0, 1]) expect((await send(next.secret, at)).status).toBe(202)
  })

  test("a secret in a different company's row does not open (ASVS 8.4.1, 11.3.3)", async () => {
    const [one, other] = [await openCompany(), await openCompany()]
    const [{ body: mine }, { body: theirs }] = [await one.regenerate(), await other.regenerate()]
    await seal(other.admin, (await rowOf(one.admin)).sealed_secret)
    for (const secret of [mine.secret, theirs.secret]) await expectUnusable(other.send, secret)
    expect((await one.send(mine.secret)).status).toBe(202)
  })

  test('an old secret put back does not open (ASVS 11.3.3)', async () => {
    const { admin, regenerate, send } = await openCompany()
    const { body: first } = await regenerate()
    const old = (await rowOf(admin)).sealed_secret
    const { body: second } = await regenerate()
    await seal(admin, old)
    for (const secret of [first.secret, second.secret]) await expectUnusable(send, secret)
  })

  function flip(sealed: string, at: number) {
    const [id, encoded = ''] = sealed.split('.')
    const bytes = Buffer.from(encoded, 'base64url')
    const index = at < 0 ? bytes.length + at : at
    bytes.writeUInt8(bytes.readUInt8(index) ^ 1, index)
    return `${id}.${bytes.toString('base64url')}`
  }

  async function expectUnusable(send: Awaited<ReturnType<typeof openCompany>>['send'], secret: string) {
    for (const at of [0, 1]) {
      const answer = await send(secret, at)
      expect(answer).toMatchObject({ status: 503, body: { code: 'unavailable' } })
      expect(answer.headers['retry-after']).toBe('60')
      const lines = service.logs
        .join('')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
      const logged = lines.find(({ requestId, err }) => requestId === answer.body.requestId && err)
      expect(logged).toMatchObject({ msg: 'unavailable' })
    }
  }
})
