import { setImmediate as turn } from 'node:timers/promises'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { countWaiting, openTestService, times, useSharedService } from '../support/test-service.ts'

const { service } = await useSharedService()
const admin = await service.addCompany()

/** Moves a session's last rotation into the past of the database's own clock. */
async function ageRotation(sessionId: string, seconds: number, { db } = service) {
  await sql`update sessions set rotated_at = rotated_at - make_interval(secs => ${seconds}),
      recent_spent_at = array(select t - make_interval(secs => ${seconds}) from unnest(recent_spent_at) t)
    where session_id = ${sessionId}`.execute(db)
}

const auditedRefreshes = (sessionId: string) =>
  service.db
    .selectFrom('audit_events')
    .select('outcome')
    .where('session_id', '=', sessionId)
    .where('action', '=', 'refresh')
    .execute()

describe('a refresh token', () => {
  test('a refresh returns a new refresh token (ASVS 10.4.5)', async () => {
    const first = await service.loginAs(admin)
    const { status, body } = await service.refresh(first.refreshToken)
    expect(status).toBe(200)
    expect(body.session.id).toBe(first.session.id)
    expect(body.refreshToken).not.toBe(first.refreshToken)
    expect(Object.keys(body).sort()).toEqual(Object.keys(first).sort())
    expect((await service.refresh(body.refreshToken)).status).toBe(200)
  })

  test('concurrent refreshes issue one successor and keep the session', async () => {
    // On a busy machine the fifty can take more than a second.
    const patient = await openTestService({ instances: 2, env: { REFRESH_RACE_SECONDS: '300' } })
    const person = await patient.addCompany()
    for (let round = 0; round < 5; round += 1) {
      const { refreshToken, accessToken } = await patient.loginAs(person)
      const answers = await Promise.all(times(50, (i) => patient.refresh(refreshToken, { at: i % 2 })))
      const good = answers.filter(({ status }) => status === 200)
      expect(good.length).toBeGreaterThanOrEqual(1)
      expect(new Set(good.map(({ body }) => body.refreshToken)).size).toBe(1)
      for (const { status, body } of answers) {
        if (status !== 200) expect([status, body.code]).toEqual([401, 'refresh_token_reused'])
      }
      expect((await patient.call('/auth/session', { method: 'GET', token: accessToken })).status).toBe(200)
      expect((await patient.refresh(good[0]?.body.refreshToken)).status).toBe(200)
    }
  })

  test('concurrent refreshes with one Idempotency-Key all get the successor', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { refreshToken } = await service.loginAs(admin)
      const answers = await Promise.all(
        times(50, (i) => service.refresh(refreshToken, { at: i % 2, key: `key-${round}` })),
      )
      expect(answers.map(({ status }) => status)).toEqual(times(50, () => 200))
      expect(new Set(answers.map(({ body }) => body.refreshToken)).size).toBe(1)
    }
  })

  test('reusing a refresh token ends its session only', async () => {
    const stolen = await service.loginAs(admin)
    const other = await service.loginAs(admin)
    const { body: successor } = await service.refresh(stolen.refreshToken)
    await ageRotation(stolen.session.id, 2)
    const replay = await service.refresh(stolen.refreshToken, { at: 1 })
    expect([replay.status, replay.body.code]).toEqual([401, 'refresh_token_reused'])
    for (const token of [stolen.accessToken, successor.accessToken]) {
      const { status, body } = await service.call('/auth/session', { method: 'GET', token })
      expect([status, body.code, body.reason]).toEqual([401, 'session_ended', 'refresh_reuse'])
    }
    expect((await service.refresh(successor.refreshToken)).body.code).toBe('session_ended')
    expect((await service.refresh(other.refreshToken)).status).toBe(200)
    const audit = await auditedRefreshes(stolen.session.id)
    expect(audit).toEqual([{ outcome: 'reused' }])
  })

  test('a token older than the predecessor ends the session immediately', async () => {
    const first = await service.loginAs(admin)
    const { body: second } = await service.refresh(first.refreshToken)
    const { body: third } = await service.refresh(second.refreshToken)
    expect((await service.refresh(first.refreshToken)).body.code).toBe('refresh_token_reused')
    expect((await service.refresh(third.refreshToken)).body.code).toBe('session_ended')
  })

  test('a just-used refresh token is refused and ends nothing', async () => {
    const first = await service.loginAs(admin)
    const { body: second } = await service.refresh(first.refreshToken)
    await ageRotation(first.session.id, -3600)
    expect((await service.refresh(first.refreshToken, { at: 1 })).body.code).toBe('refresh_token_reused')
    expect((await service.refresh(second.refreshToken)).status).toBe(200)
    const audit = await auditedRefreshes(first.session.id)
    expect(audit).toEqual([{ outcome: 'raced' }])
  })
})

describe('a lost answer', () => {
  test('a retried refresh with the same key returns the same token', async () => {
    const { refreshToken } = await service.loginAs(admin)
    const { body: lost } = await service.refresh(refreshToken, { key: 'retry' })
    const { status, body } = await service.refresh(refreshToken, { key: 'retry', at: 1 })
    expect(status).toBe(200)
    expect(body.refreshToken).toBe(lost.refreshToken)
  })

  test('a retry is refused after the successor was used', async () => {
    const { refreshToken } = await service.loginAs(admin)
    const { body: second } = await service.refresh(refreshToken, { key: 'a' })
    await service.refresh(second.refreshToken, { key: 'b' })
    expect((await service.refresh(refreshToken, { key: 'a' })).body.code).toBe('refresh_token_reused')
  })

  test('a retry after the idempotency window counts as theft', async () => {
    const { refreshToken, session } = await service.loginAs(admin)
    const { body: second } = await service.refresh(refreshToken, { key: 'a' })
    await ageRotation(session.id, 301)
    expect((await service.refresh(refreshToken, { key: 'a' })).body.code).toBe('refresh_token_reused')
    expect((await service.refresh(second.refreshToken)).body.code).toBe('session_ended')
  })

  test('a retry with a different key is refused', async () => {
    const { refreshToken, session } = await service.loginAs(admin)
    await service.refresh(refreshToken, { key: 'mine' })
    await ageRotation(session.id, 2)
    expect((await service.refresh(refreshToken, { key: 'other' })).body.code).toBe('refresh_token_reused')
  })
})

describe('a late retry', () => {
  /** Spends the token and its two successors, a refresh each `seconds`. */
  async function goOn(seconds: number) {
    const first = await service.loginAs(admin)
    let { refreshToken } = first
    for (const key of ['a', 'b', 'c']) {
      refreshToken = (await service.refresh(refreshToken, { key })).body.refreshToken
      await ageRotation(first.session.id, seconds)
    }
    return { first, latest: refreshToken }
  }

  test('a late retry with its own key ends nothing', async () => {
    const { first, latest } = await goOn(5)
    for (const at of [0, 1]) {
      const late = await service.refresh(first.refreshToken, { key: 'a', at })
      expect([late.status, late.body.code, late.body.reason]).toEqual([
        401,
        'refresh_token_reused',
        undefined,
      ])
    }
    expect((await service.refresh(latest)).status).toBe(200)
    const audit = await auditedRefreshes(first.session.id)
    expect(audit).toEqual([{ outcome: 'raced' }, { outcome: 'raced' }])
  })

  test('a late retry after the idempotency window counts as theft', async () => {
    const { first, latest } = await goOn(101)
    const late = await service.refresh(first.refreshToken, { key: 'a' })
    expect([late.body.code, late.body.reason]).toEqual(['refresh_token_reused', 'refresh_reuse'])
    expect((await service.refresh(latest)).body.code).toBe('session_ended')
  })

  test('a session remembers keys for the idempotency window only', async () => {
    const strict = await openTestService({ env: { RATE_LIMIT_SCALE: '1' } })
    const first = await strict.loginAs(await strict.addCompany())
    let { refreshToken } = first
    const spend = async (count: number) => {
      for (const _ of times(count, () => {})) {
        const key = refreshToken.slice(-20).replace(/[^\w-]/g, '_')
        refreshToken = (await strict.refresh(refreshToken, { key })).body.refreshToken
      }
    }
    const remembered = async () => {
      const { rows } = await sql<{ keys: number; times: number }>`
        select cardinality(recent_keys) as keys, cardinality(recent_spent_at) as times
        from sessions where session_id = ${first.session.id}`.execute(strict.db)
      return rows[0]
    }
    // Five windows of the limit, and the next: 30 refreshes in each.
    for (const _ of times(6, () => {})) {
      await spend(30)
      await ageRotation(first.session.id, 40, strict)
      await sql`update sessions set window_started_at = window_started_at - interval '60 s'
        where session_id = ${first.session.id}`.execute(strict.db)
    }
    expect(await remembered()).toEqual({ keys: 150, times: 150 })
    await ageRotation(first.session.id, 230, strict)
    await spend(1)
    expect(await remembered()).toEqual({ keys: 31, times: 31 })
    await ageRotation(first.session.id, 301, strict)
    await spend(1)
    expect(await remembered()).toEqual({ keys: 1, times: 1 })
  })

  test.each([['x'], ['b'], [undefined]])('a late retry with the key %s counts as theft', async (key) => {
    const { first, latest } = await goOn(5)
    const late = await service.refresh(first.refreshToken, { ...(key && { key }) })
    expect([late.body.code, late.body.reason]).toEqual(['refresh_token_reused', 'refresh_reuse'])
    expect((await service.refresh(latest)).body.code).toBe('session_ended')
  })

  test('a late retry of a refresh without a key counts as theft', async () => {
    const first = await service.loginAs(admin)
    const { body: second } = await service.refresh(first.refreshToken)
    const { body: third } = await service.refresh(second.refreshToken, { key: 'b' })
    await ageRotation(first.session.id, 5)
    expect((await service.refresh(first.refreshToken, { key: 'b' })).body.reason).toBe('refresh_reuse')
    expect((await service.refresh(third.refreshToken)).body.code).toBe('session_ended')
  })
})

test('an Idempotency-Key used with an earlier token is a conflict', async () => {
  const { refreshToken } = await service.loginAs(admin)
  const { body: second } = await service.refresh(refreshToken, { key: 'one' })
  const { body: third } = await service.refresh(second.refreshToken, { key: 'two' })
  for (const key of ['one', 'two']) {
    const { status, body } = await service.refresh(third.refreshToken, { key })
    expect([status, body.code]).toEqual([409, 'idempotency_conflict'])
  }
  expect((await service.refresh(third.refreshToken, { key: 'three' })).status).toBe(200)
})

test('a malformed Idempotency-Key consumes no refresh token', async () => {
  const { refreshToken } = await service.loginAs(admin)
  for (const key of ['a b', 'ü', 'x'.repeat(129)]) {
    expect(
      (
        await service.refresh(refreshToken, {
          headers: { 'idempotency-key': Buffer.from(key).toString('latin1') },
        })
      ).status,
    ).toBe(400)
  }
  expect((await service.refresh(refreshToken)).status).toBe(200)
})

describe('a session', () => {
  test('refreshes extend a session to its maximum age (ASVS 7.3.2)', async () => {
    let { refreshToken, session } = await service.loginAs(admin)
    const createdAt = Date.parse(session.createdAt)
    for (let day = 6; day <= 30; day += 6) {
      service.clock.advance(6 * 86_400)
      const { status, body } = await service.refresh(refreshToken)
      if (day === 30) expect(body.code).toBe('token_expired')
      else {
        expect(status).toBe(200)
        const end = Math.min(createdAt + (day + 7) * 86_400_000, createdAt + 30 * 86_400_000)
        expect(Date.parse(body.session.expiresAt)).toBe(end)
        refreshToken = body.refreshToken
      }
    }
  })

  test('a session ends with its refresh token (ASVS 7.3.1)', async () => {
    const { refreshToken } = await service.loginAs(admin)
    service.clock.advance(604_801)
    expect((await service.refresh(refreshToken)).body.code).toBe('token_expired')
  })
})

test('a slow race of two refreshes is not theft', async () => {
  const strict = await openTestService({ instances: 2, env: { REFRESH_RACE_SECONDS: '0' } })
  const person = await strict.addCompany()
  const { refreshToken, session } = await strict.loginAs(person)
  const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
  const { promise: isLocked, resolve: locked } = Promise.withResolvers<void>()
  const blocker = strict.db.transaction().execute(async (tx) => {
    await sql`select from sessions where session_id = ${session.id} for update`.execute(tx)
    locked()
    await mayEnd
  })
  await isLocked
  const answers = [0, 1].map((at) => strict.refresh(refreshToken, { at }))
  while ((await countWaiting(strict.db)) !== 2) await turn()
  end()
  await blocker
  const [winner, loser] = (await Promise.all(answers)).toSorted((one, other) => one.status - other.status)
  expect([winner?.status, loser?.status, loser?.body.code]).toEqual([200, 401, 'refresh_token_reused'])
  expect((await strict.refresh(winner?.body.refreshToken)).status).toBe(200)
})

test('a grace period returns the successor only to keyless clients', async () => {
  const gentle = await openTestService({ env: { REFRESH_GRACE_SECONDS: '3600', REFRESH_RACE_SECONDS: '0' } })
  const person = await gentle.addCompany()
  const plain = await gentle.loginAs(person)
  const { body: lost } = await gentle.refresh(plain.refreshToken)
  expect((await gentle.refresh(plain.refreshToken)).body.refreshToken).toBe(lost.refreshToken)
  const keyed = await gentle.loginAs(person)
  await gentle.refresh(keyed.refreshToken, { key: 'mine' })
  expect((await gentle.refresh(keyed.refreshToken)).body.code).toBe('refresh_token_reused')
})
