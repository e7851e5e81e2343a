import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { expectField } from '../support/problem.ts'
import { must, openFactorService } from '../support/second-factors.ts'
import {
  type Answer,
  countWaiting,
  createCountingHasher,
  NEW_PASSWORD,
  PASSWORD,
  type Person,
  times,
} from '../support/test-service.ts'
import { auditOfSession } from './state.ts'

/** Ten wrong guesses at re-authentication end their session, but no other one. */

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
async function guessTimes(count: number, token: string) {
  for (let n = 0; n < count; n += 1) expectField(await guess(token, n), '/password')
}

const ENDED = [401, 'session_ended', 'reauthentication_failed']
const stateOf = ({ status, body }: Answer) => [status, body.code, body.reason]

test('the tenth wrong password ends only its session and emails the user (ASVS 2.4.1, 6.3.1)', async () => {
  const person = await service.addUser(admin)
  const [stolen, own] = [await service.loginAs(person), await service.loginAs(person)]
  await guessTimes(9, stolen.accessToken)
  expect(stateOf(await guess(stolen.accessToken, 9))).toEqual(ENDED)
  expect(stateOf(await service.getSession({ token: stolen.accessToken, at: 1 }))).toEqual(ENDED)

  const { email } = await mailbox.mailTo(person.email, 'session')
  expect(email.text).toContain('198.51.100.9')
  const audit = await auditOfSession(service, stolen.session.id)
  expect(audit.map(({ action, outcome }) => `${action} ${outcome}`).toSorted()).toEqual([
    ...times(10, () => 'reauthenticate refused'),
    'session_end reauthentication_failed',
  ])

  expect((await service.login(person, { headers: { 'x-forwarded-for': '198.51.100.9' } })).status).toBe(200)
  expect((await reauthenticate(own.accessToken, { password: PASSWORD })).status).toBe(200)
  const proven = { action: 'reauthenticate', outcome: 'done' }
  expect(await auditOfSession(service, own.session.id)).toMatchObject([proven])
})

test('at most ten concurrent password guesses are checked', async () => {
  const { accessToken: token } = await service.loginAs(await service.addUser(admin))
  const before = hasher.verified
  await Promise.all(times(25, (n) => guess(token, n)))
  const checked = hasher.verified - before
  expect(checked).toBeGreaterThan(0)
  expect(checked).toBeLessThanOrEqual(10)
  expect(stateOf(await service.getSession({ token, at: 1 }))).toEqual(ENDED)
})

test('wrong passwords count for 15 minutes, correct ones never', async () => {
  let pair = await service.loginAs(await service.addUser(admin))
  await guessTimes(9, pair.accessToken)
  for (let n = 0; n < 3; n += 1) {
    const next = await must(reauthenticate(pair.accessToken, { password: PASSWORD }, n))
    expect(next.refreshToken).not.toBe(pair.refreshToken)
    pair = next
  }
  service.clock.advance(15 * 60)
  const { accessToken } = await must(service.refresh(pair.refreshToken))
  await guessTimes(1, accessToken)
})

test('wrong codes count like wrong passwords, but only for their session', async () => {
  const person = await service.personWithTotp(admin)
  const { accessToken } = await must(service.signInByTotp(person))
  await guessTimes(5, accessToken)
  const { challenge } = await must(reauthenticate(accessToken, { password: PASSWORD }))
  const tryCode = () => reauthenticate(accessToken, { challenge, method: 'totp', code: '000000' })
  for (let n = 0; n < 4; n += 1) expectField(await tryCode(), '/code')
  expect(stateOf(await tryCode())).toEqual(ENDED)
  expect(await service.wrongCodesOf(person)).toBe(0)
  expect((await service.signInByTotp(person)).status).toBe(200)
})

test('wrong passkeys count like wrong passwords', async () => {
  const [{ token }, other] = [await service.personWithPasskey(admin), await service.personWithPasskey(admin)]
  await guessTimes(9, token)
  const { challenge, passkeyOptions } = await must(call('/auth/reauthenticate/passkey/options', { token }))
  const response = other.authenticator.get(passkeyOptions)
  expect(stateOf(await reauthenticate(token, { challenge, method: 'passkey', response }))).toEqual(ENDED)
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

test('a password is checked against the same user if the email moves', async () => {
  const HEIR = { password: 'the password of a colleague' }
  const setEmail = (tx: typeof service.db, { userId }: Person, email: string) =>
    tx.updateTable('users').set({ email }).where('user_id', '=', userId).execute()

  /** The request waits for the counters after it passed the guard. */
  async function moveEmailDuring(path: string, json: object): Promise<number> {
    const [person, heir] = [await service.addUser(admin), await service.addUser(admin, 'viewer', HEIR)]
    const { accessToken: token } = await service.loginAs(person)
    const { asked } = await service.db.transaction().execute(async (tx) => {
      await sql`lock table rate_counters in exclusive mode`.execute(tx)
      const asked = call(path, { token, json })
      await expect.poll(() => countWaiting(service.db)).toBeGreaterThan(0)
      await setEmail(tx, person, `former-${person.email}`)
      await setEmail(tx, heir, person.email)
      return { asked }
    })
    return (await asked).status
  }

  expect(await moveEmailDuring('/auth/reauthenticate', HEIR)).toBe(400)
  expect(await moveEmailDuring('/auth/reauthenticate', { password: PASSWORD })).toBe(200)
  const json = { currentPassword: HEIR.password, newPassword: NEW_PASSWORD }
  expect(await moveEmailDuring('/auth/password/change', json)).toBe(400)
})
