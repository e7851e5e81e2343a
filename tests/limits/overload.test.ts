import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { SilentDatabaseError } from '../../src/database/faults.ts'
import {
  createCheapHasher,
  createCountingHasher,
  openTestService,
  PASSWORD,
  type TestService,
  times,
} from '../support/test-service.ts'
import { remaining } from './limited.ts'

/** Sign-ins that are not served are refunded. */

describe('overload by concurrent sign-ins (ASVS 15.1.3, 15.2.2)', async () => {
  const service = await openTestService({
    hasher: await createCheapHasher(1, 16),
  })
  const admin = await service.addCompany()
  const person = await service.addUser(admin)
  const flood = (password: string) => times(60, () => service.login({ ...person, password }))

  test('sign-ins beyond the capacity get 503, while other requests are served', async () => {
    const { refreshToken } = await service.loginAs(admin)
    const sending = flood(person.password)
    expect((await service.refresh(refreshToken)).status).toBe(200)
    const refused = (await Promise.all(sending)).filter(({ status }) => status !== 200)
    expect(refused.length).toBeGreaterThan(0)
    expect(refused.length).toBeLessThan(60)
    for (const { status, headers, body } of refused)
      expect([status, headers['retry-after'], body.code]).toEqual([503, '1', 'overloaded'])
    const sessions = service.db.selectFrom('sessions').select('kind').where('user_id', '=', person.userId)
    expect(await sessions.execute()).toHaveLength(60 - refused.length)
    expect((await service.login(person)).status).toBe(200)
  })

  test('sign-ins beyond the capacity are not counted as failures', async () => {
    const answers = await Promise.all(flood('not the password'))
    const guessed = answers.filter(({ status }) => status === 401).length
    expect(guessed).toBeLessThan(60)
    const answer = await service.login({ ...person, password: 'not the password' })
    expect(10_000 - remaining(answer)).toBe(guessed + 1)
  })
})

test('a sign-in that takes too long gets 503 and opens no session (ASVS 15.1.3)', async () => {
  const hasher = await createCountingHasher()
  const service = await openTestService({ hasher, answerWithinMs: 300 })
  const person = await service.addCompany()
  const before = await selectCounters(service)
  const answered = Promise.withResolvers<void>()
  hasher.beforeVerifying = () => answered.promise
  const { status, headers, body } = await service.login(person)
  expect([status, headers['retry-after'], body.code]).toEqual([503, '1', 'unavailable'])
  answered.resolve()
  // The attempt is refunded at the end of the request.
  await expect.poll(() => selectCounters(service)).toEqual(before)
  expect(await service.db.selectFrom('sessions').select('session_id').execute()).toEqual([])
  const logged = service.logs.map((line) => JSON.parse(line)).filter(({ code }) => code === 'unavailable')
  expect(logged).toMatchObject([{ status: 503, reason: 'too_late' }])
  expect(service.logs.join('')).not.toContain('sent')
})

test("an outage's 503 does not wait for the refund of the attempt", async () => {
  const hasher = await createCountingHasher()
  const service = await openTestService({ hasher })
  const person = await service.addCompany()
  const { accessToken: token } = await service.loginAs(person)
  const json = { password: PASSWORD }
  for (const ask of [
    () => service.login(person),
    () => service.call('/auth/reauthenticate', { json, token }),
  ]) {
    const counted = Promise.withResolvers<void>()
    const locked = Promise.withResolvers<void>()
    const answered = Promise.withResolvers<void>()
    const before = await selectCounters(service)
    hasher.beforeVerifying = async () => {
      hasher.beforeVerifying = undefined
      counted.resolve()
      await locked.promise
      throw new SilentDatabaseError()
    }
    const asking = ask()
    await counted.promise
    // The lock simulates commits that are not acknowledged, so refunds wait.
    const locking = service.db.transaction().execute(async (tx) => {
      await sql`lock table rate_counters in access exclusive mode`.execute(tx)
      locked.resolve()
      await answered.promise
    })
    expect((await asking).status).toBe(503)
    answered.resolve()
    await locking
    await expect.poll(() => selectCounters(service)).toEqual(before)
  }
})

async function selectCounters({ db }: TestService) {
  return await db
    .selectFrom('rate_counters')
    .select(['counter', 'hits'])
    .where('hits', '>', 0)
    // These always count, whatever their outcome.
    .where('counter', 'not like', 'reauthentications:%')
    .orderBy('counter')
    .execute()
}
