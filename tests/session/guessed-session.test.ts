import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { expectField } from '../http/problem.ts'
import { selectAudit } from '../support/audit.ts'
import { must, openFactorService } from '../support/second-factors.ts'
import { countWaiting, createCountingHasher, PASSWORD, type Person, times } from '../support/test-service.ts'

/** A session ends after ten wrong guesses at re-authentication, and no other session is affected. */

const hasher = await createCountingHasher()
const service = await openFactorService({
  instances: 2,
  hasher,
  env: { RATE_LIMIT_SCALE: '1', LIMIT_SIGN_IN_ATTEMPTS: '3000/60', TRUST_PROXY: '127.0.0.1/32' },
})
const admin = await service.addCompany()
const { call, mailbox } = service

const reauthenticate = (token: string, json: object, n = 0) =>
  call('/auth/reauthenticate', {
    token,
    json,
    at: n % 2,
    headers: { 'x-forwarded-for': `198.51.100.${n}` },
  })
const guess = (token: string, n: number) => reauthenticate(token, { password: 'a wrong guess' }, n)

const ENDED = [401, 'session_ended', 'reauthentication_failed']
const stateOf = async (token: string) => {
  const { status, body } = await service.getSession({ token, at: 1 })
  return [status, body.code, body.reason]
}

describe('wrong passwords at /auth/reauthenticate', () => {
  test('the tenth wrong password ends the session and emails its owner (ASVS 6.3.1)', async () => {
    const person = await service.addUser(admin)
    const [stolen, own] = [await service.loginAs(person), await service.loginAs(person)]
    for (const n of times(9, (n) => n)) expectField(await guess(stolen.accessToken, n), '/password')
    const { status, body } = await guess(stolen.accessToken, 9)
    expect([status, body.code, body.reason]).toEqual(ENDED)
    expect(await stateOf(stolen.accessToken)).toEqual(ENDED)

    const { email } = await mailbox.mailTo(person.email, 'session')
    expect(email.text).toContain('198.51.100.9')
    const entries = await selectAudit(service.db)
      .select(['action', 'outcome', 'session_id'])
      .where('actor', '=', person.userId)
      .where('action', 'in', ['reauthenticate', 'session_end'])
      .execute()
    const of = (action: string, outcome: string) => ({ action, outcome, session_id: stolen.session.id })
    expect(entries).toHaveLength(11)
    expect(entries).toEqual(expect.arrayContaining([of('reauthenticate', 'refused')]))
    expect(entries).toContainEqual(of('session_end', 'reauthentication_failed'))

    // They do not affect sign-in or other sessions (ASVS 2.4.1).
    expect((await service.login(person, { headers: { 'x-forwarded-for': '198.51.100.9' } })).status).toBe(200)
    expect((await reauthenticate(own.accessToken, { password: PASSWORD })).status).toBe(200)
  })

  test('at most ten concurrent guesses are checked', async () => {
    const { accessToken } = await service.loginAs(await service.addUser(admin))
    const before = hasher.verified
    await Promise.all(times(25, (n) => guess(accessToken, n)))
    expect(hasher.verified - before).toBeLessThanOrEqual(10)
    expect(await stateOf(accessToken)).toEqual(ENDED)
  })

  test('wrong passwords count for 15 minutes, and correct ones never', async () => {
    const { accessToken, refreshToken } = await service.loginAs(await service.addUser(admin))
    for (const n of times(9, (n) => n)) await guess(accessToken, n)
    const renewed = await must(reauthenticate(accessToken, { password: PASSWORD }))
    for (const n of times(2, (n) => n)) {
      const again = await must(reauthenticate(renewed.accessToken, { password: PASSWORD }, n))
      expect(again.refreshToken).not.toBe(refreshToken)
      Object.assign(renewed, again)
    }
    service.clock.advance(15 * 60)
    const { accessToken: next } = await must(service.refresh(renewed.refreshToken))
    expectField(await guess(next, 0), '/password')
  })
})

test('wrong codes count like wrong passwords, only for their session', async () => {
  const person = await service.personWithTotp(admin)
  const { accessToken } = await must(service.signInByTotp(person))
  for (const n of times(5, (n) => n)) await guess(accessToken, n)
  const { challenge } = await must(reauthenticate(accessToken, { password: PASSWORD }))
  const tryCode = (code: string) => reauthenticate(accessToken, { challenge, method: 'totp', code })
  for (const _ of times(4, () => {})) expectField(await tryCode('000000'), '/code')
  const { status, body } = await tryCode('000000')
  expect([status, body.code, body.reason]).toEqual(ENDED)
  const user = await service.db
    .selectFrom('users')
    .select('wrong_codes')
    .where('user_id', '=', person.userId)
    .executeTakeFirst()
  expect(user?.wrong_codes).toBe(0)
  expect((await service.signInByTotp(person)).status).toBe(200)
})

test('wrong passkeys count like wrong passwords', async () => {
  const [person, other] = [await service.personWithPasskey(admin), await service.personWithPasskey(admin)]
  const { token } = person
  for (const n of times(9, (n) => n)) await guess(token, n)
  const { challenge, passkeyOptions } = await must(call('/auth/reauthenticate/passkey/options', { token }))
  const response = other.authenticator.get(passkeyOptions)
  const { status, body } = await reauthenticate(token, { challenge, method: 'passkey', response })
  expect([status, body.code, body.reason]).toEqual(ENDED)
})

test('a retry of a re-authentication in progress returns the same tokens', async () => {
  const { accessToken: token } = await service.loginAs(await service.addUser(admin))
  const retry = (n: number) =>
    call('/auth/reauthenticate', {
      token,
      at: n % 2,
      json: { password: PASSWORD },
      headers: { 'idempotency-key': 'one' },
    })
  const answers = await Promise.all(times(20, retry))
  expect(new Set(answers.map(({ status, body }) => `${status} ${body.refreshToken}`)).size).toBe(1)
})

describe('while the email of a user moves to a different account', () => {
  /** The request has passed the guard when it waits for the counters. */
  async function moveEmailDuring(path: string, json: object): Promise<number> {
    const [person, heir] = [await service.addUser(admin), await service.addUser(admin, 'viewer', HEIR)]
    const { accessToken: token } = await service.loginAs(person)
    const asked = await service.db.transaction().execute(async (tx) => {
      await sql`lock table rate_counters in exclusive mode`.execute(tx)
      const asked = call(path, { token, json })
      await expect.poll(() => countWaiting(service.db)).toBeGreaterThan(0)
      await setEmail(tx, person, `former-${person.email}`)
      await setEmail(tx, heir, person.email)
      return { asked }
    })
    return (await asked.asked).status
  }
  const HEIR = { password: 'the password of a colleague' }
  const setEmail = async (tx: typeof service.db, { userId }: Person, email: string) => {
    await tx.updateTable('users').set({ email }).where('user_id', '=', userId).execute()
  }

  test('a password is checked against the same user if the email moves', async () => {
    expect(await moveEmailDuring('/auth/reauthenticate', HEIR)).toBe(400)
    expect(await moveEmailDuring('/auth/reauthenticate', { password: PASSWORD })).toBe(200)
    const change = (currentPassword: string) => ({ currentPassword, newPassword: 'a new password of mine' })
    expect(await moveEmailDuring('/auth/password/change', change(HEIR.password))).toBe(400)
  })
})
