import { describe, expect, test } from 'vitest'
import { resetSecondFactors } from '../../src/operator/users.ts'
import { settleLapsedAcrossCompanies } from '../../src/sign-in/lapsed.ts'
import { expectProblem } from '../http/problem.ts'
import { selectAudit } from '../support/audit.ts'
import { COOKIE_MODE, codeAt, must, openFactorService } from '../support/second-factors.ts'
import { type Answer, PASSWORD, times } from '../support/test-service.ts'

/** Factors that are lost, passwords that somebody else knows, codes that are guessed (ASVS 6.3.1, 6.4.4, 6.6.3). */

const service = await openFactorService({
  instances: 2,
  env: { LIMIT_SECOND_FACTOR_CODES: '10/900', TRUST_PROXY: '127.0.0.1' },
})
const admin = await service.addCompany()
const { accessToken: byAdmin } = await service.loginAs(admin)
const { call, begin, complete } = service
const now = () => service.clock.now()
const expectWrong = (answer: Answer) => expectProblem(answer, [401, 'invalid_second_factor'])

/** The token of the next mailed link to choose a password. */
const linkTo = async (address: string) => (await service.mailbox.mailTo(address, 'Reset your password')).token

const NEW_PASSWORD = 'another fine battery'
const resetBy = (token: string, newPassword = NEW_PASSWORD) =>
  call('/auth/password/reset', { json: { token, newPassword } })

describe('an admin resets the factors of a member who has lost them (ASVS 6.4.4, 6.4.6):', () => {
  const reset = (id: string, token = byAdmin as string) =>
    call(`/auth/members/${id}/second-factors`, { method: 'DELETE', token })

  test('factors, codes and password are void, sessions end, and a link is mailed', async () => {
    const person = await service.personWithTotp(admin)
    const cookie = await must(service.signInByTotp(person))
    const open = await begin(person)
    const member = await must(call(`/auth/members/${person.userId}`, { method: 'GET', token: byAdmin }))
    expect(member.secondFactors).toEqual(['totp'])
    expect((await reset(person.userId)).status).toBe(204)

    const { body } = await service.getSession({ token: cookie.accessToken })
    expect([body.code, body.reason]).toEqual(['session_ended', 'ended_by_admin'])
    expectWrong(
      await complete({ challenge: open.challenge, method: 'totp', code: codeAt(person.secret, now()) }),
    )
    expectProblem(await service.login(person), [401, 'invalid_credentials'])
    await service.mailbox.mailTo(person.email, 'Your sign-in to')
    expect((await resetBy(await linkTo(person.email))).status).toBe(204)
    const again = { ...person, password: NEW_PASSWORD }
    const { accessToken: token } = await service.loginAs(again)
    const { body: factors } = await call('/auth/second-factors', { method: 'GET', token })
    expect(factors).toMatchObject({ secondFactors: [], recoveryCodes: 0 })
    const [code] = person.recoveryCodes ?? []
    await service.addTotp({ token })
    const { challenge } = await begin(again)
    expectWrong(await complete({ challenge, method: 'recovery_code', code }))
  })

  test('links that were mailed before, and a change of address, are void', async () => {
    const person = await service.personWithTotp(admin)
    const session = await must(service.signInByTotp(person))
    await must(
      call('/auth/email/change', { token: session.accessToken, json: { newEmail: 'elsewhere@x.example' } }),
    )
    const { token: confirmation } = await service.mailbox.mailTo('elsewhere@x.example')
    await must(call('/auth/password/forgot', { json: { companyId: person.companyId, email: person.email } }))
    const old = await linkTo(person.email)
    await must(reset(person.userId))
    expectProblem(await resetBy(old), [400, 'invalid_request'])
    expectProblem(await call('/auth/email/confirm', { json: { token: confirmation } }), [
      400,
      'invalid_request',
    ])
    expect((await resetBy(await linkTo(person.email))).status).toBe(204)
  })

  test('is audited, and not for oneself, a server, somebody of another company, or without the right', async () => {
    const person = await service.personWithTotp(admin)
    await must(reset(person.userId))
    const [entry] = await selectAudit(service.db)
      .select(['actor', 'outcome'])
      .where('action', '=', 'second_factors_reset')
      .where('subject', '=', person.userId)
      .execute()
    expect(entry).toEqual({ actor: admin.userId, outcome: 'done' })

    expectProblem(await reset(admin.userId), [403, 'permission_denied'])
    const server = await must(
      call('/auth/members', { token: byAdmin, json: { name: 'Billing', role: 'developer' } }),
    )
    expectProblem(await reset(server.id), [404, 'not_found'])
    expect((await service.loginAs({ companyId: admin.companyId, ...server })).user.id).toBe(server.id)
    const stranger = await service.personWithTotp(await service.addCompany())
    expectProblem(await reset(stranger.userId), [404, 'not_found'])
    const { accessToken } = await service.loginAs(await service.addUser(admin, 'developer'))
    expectProblem(await reset(stranger.userId, accessToken), [403, 'permission_denied'])
    expect((await begin(stranger)).methods).toContain('totp')
  })
})

test('an operator can help the last admin', async () => {
  const last = await service.addCompany()
  const { accessToken: token } = await service.loginAs(last)
  await service.addTotp({ token })
  await resetSecondFactors(service.context, last.companyId, { email: last.email }, now())
  expect((await service.getSession({ token })).body.reason).toBe('ended_by_operator')
  expect((await resetBy(await linkTo(last.email))).status).toBe(204)
  const { user } = await service.loginAs({ ...last, password: NEW_PASSWORD })
  expect(user.role).toBe('admin')
})

test('a mailed reset of the password leaves the second factor, which is asked for after it (ASVS 6.4.3)', async () => {
  const person = await service.personWithTotp(admin)
  await must(call('/auth/password/forgot', { json: { companyId: person.companyId, email: person.email } }))
  expect((await resetBy(await linkTo(person.email))).status).toBe(204)
  const after = { ...person, password: NEW_PASSWORD }
  expect((await service.login(after)).body.code).toBe('second_factor_required')
  expect((await service.signInByTotp(after)).status).toBe(200)
})

describe('codes that are guessed (ASVS 6.6.3)', () => {
  const strict = service
  const scale = strict.config.limits.secondFactorCodes.max

  test('are limited by member, whatever the challenge and the instance', async () => {
    const limited = await openFactorService({
      instances: 2,
      env: { RATE_LIMIT_SCALE: '1', LIMIT_REFUSALS: '1000/60', LIMIT_SIGN_IN_ATTEMPTS: '1000/60' },
    })
    const company = await limited.addCompany()
    const person = await limited.personWithTotp(company)
    const challenges: string[] = []
    for (const _ of times(4, () => 0)) challenges.push((await limited.begin(person)).challenge)
    const answers = await Promise.all(
      times(40, (n) =>
        limited.complete(
          { challenge: challenges[n % 4], method: 'totp', code: String(n).padStart(6, '0') },
          { at: n % 2 },
        ),
      ),
    )
    const wrong = await selectAudit(limited.db)
      .select('outcome')
      .where('action', '=', 'second_factor')
      .where('actor', '=', person.userId)
      .execute()
    expect(wrong.length).toBeLessThanOrEqual(10)
    expect(answers.some(({ status }) => status === 429)).toBe(true)
    const { challenge } = await limited.begin(person)
    const right = { challenge, method: 'totp', code: codeAt(person.secret, limited.clock.now()) }
    const refused = await limited.complete(right)
    expectProblem(refused, [429, 'rate_limited'])
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
    // Not for longer than the window, and passkeys are not counted.
    limited.clock.advance(901)
    expect((await limited.signInByTotp(person)).status).toBe(200)
  })

  test('do not use up the limit when they are right', async () => {
    const limited = await openFactorService({ env: { RATE_LIMIT_SCALE: '1' } })
    const person = await limited.personWithTotp(await limited.addCompany())
    for (const _ of times(12, () => 0)) {
      expect((await limited.signInByTotp(person)).status).toBe(200)
      limited.clock.advance(20)
    }
  })

  test('thirty in a row make the password void: who guesses knows it', async () => {
    expect(scale).toBeGreaterThan(30)
    const person = await service.personWithPasskey(admin)
    await service.addTotp({ token: person.token })
    const guess = async (count: number) => {
      for (let left = count; left > 0; left -= 5) {
        const { challenge } = await begin(person)
        for (const _ of times(Math.min(5, left), () => 0))
          expectWrong(await complete({ challenge, method: 'totp', code: '000000' }))
      }
    }
    await guess(29)
    // A right one in between starts the count anew.
    const first = await begin(person)
    const [code = ''] = person.recoveryCodes ?? []
    expect((await complete({ challenge: first.challenge, method: 'recovery_code', code })).status).toBe(200)
    await guess(29)
    const waiting = await begin(person)
    await guess(1)
    expectProblem(await service.login(person), [401, 'invalid_credentials'])
    const given = { challenge: waiting.challenge, method: 'recovery_code', code: person.recoveryCodes?.[1] }
    expectWrong(await complete(given))
    await service.mailbox.mailTo(person.email, 'Somebody knows your password')
    const { body } = await service.getSession({ token: person.token })
    expect([body.code, body.reason]).toEqual(['session_ended', 'password_reset'])
    // The member's passkeys go on.
    const { challenge, passkeyOptions } = await must(call('/auth/login/passkey/options', {}))
    const response = person.authenticator.get(passkeyOptions)
    expect((await call('/auth/login/passkey', { json: { challenge, response } })).status).toBe(200)
    expect((await resetBy(await linkTo(person.email))).status).toBe(204)
    const [entry] = await selectAudit(service.db)
      .select(['outcome', 'actor'])
      .where('action', '=', 'password_void')
      .where('subject', '=', person.userId)
      .execute()
    expect(entry).toEqual({ outcome: 'done', actor: null })
    expect((await begin({ ...person, password: NEW_PASSWORD })).methods).toContain('totp')
  })
})

describe('a right password whose second factor never came (ASVS 6.3.5)', () => {
  const settle = () => settleLapsedAcrossCompanies({ db: service.db, system: service.clock }, now())
  /** Until a challenge has expired, and for another 15 minutes. */
  const LAPSED_SECONDS = 301 + 900
  const missing = (email: string) =>
    service.db
      .selectFrom('mail_outbox')
      .select('mail_id')
      .where('kind', '=', 'second_factor_missing')
      .where('recipient', '=', email)
      .execute()

  test('is told the member by mail, once a day', async () => {
    const person = await service.personWithTotp(admin)
    for (const _ of times(3, () => 0)) await begin(person)
    service.clock.advance(LAPSED_SECONDS - 2)
    await settle()
    expect(await missing(person.email)).toEqual([])
    service.clock.advance(2)
    await Promise.all([settle(), settle()])
    const { email } = await service.mailbox.mailTo(person.email, 'Somebody gave your password')
    expect(email.text).toContain('127.0.0.1')
    await begin(person)
    service.clock.advance(3600)
    await settle()
    expect(await missing(person.email)).toHaveLength(1)
    service.clock.advance(86_400)
    await begin(person)
    service.clock.advance(LAPSED_SECONDS)
    await settle()
    expect(await missing(person.email)).toHaveLength(2)
    const left = await service.db
      .selectFrom('second_factor_challenges')
      .select('challenge_hash')
      .where('user_id', '=', person.userId)
      .execute()
    expect(left).toEqual([])
  })

  test('not if the member took a passkey in its place', async () => {
    const person = await service.personWithPasskey(admin)
    await begin(person)
    const { challenge, passkeyOptions } = await must(call('/auth/login/passkey/options', {}))
    const response = person.authenticator.get(passkeyOptions)
    await must(call('/auth/login/passkey', { json: { challenge, response } }))
    service.clock.advance(LAPSED_SECONDS)
    await settle()
    expect(await missing(person.email)).toEqual([])
  })

  test('not if the challenge has expired, and its network begins again and completes that', async () => {
    const [person, other] = [await service.personWithTotp(admin), await service.personWithTotp(admin)]
    await begin(person)
    await begin(other, { headers: { 'x-forwarded-for': '203.0.113.5' } })
    service.clock.advance(360)
    await settle()
    for (const each of [person, other]) await must(service.signInByTotp(each))
    service.clock.advance(LAPSED_SECONDS)
    await settle()
    expect(await missing(person.email)).toEqual([])
    // Somebody elsewhere, whose challenge it still is.
    expect(await missing(other.email)).toHaveLength(1)
  })

  test('not if the sign-in was completed, or the password has changed since', async () => {
    const person = await service.personWithTotp(admin)
    await begin(person, { headers: COOKIE_MODE })
    const { refreshToken } = await must(service.signInByTotp(person))
    const other = await service.personWithTotp(admin)
    await begin(other)
    await must(
      call('/auth/password/change', {
        token: other.token,
        json: { currentPassword: PASSWORD, newPassword: NEW_PASSWORD },
      }),
    )
    service.clock.advance(LAPSED_SECONDS)
    await settle()
    for (const { email } of [person, other]) expect(await missing(email)).toEqual([])
    expect((await service.refresh(refreshToken)).status).toBe(200)
  })
})

test('a member who is deleted leaves no factor behind (ASVS 14.2.7)', async () => {
  const person = await service.personWithTotp(admin)
  await service.addPasskey({ token: person.token })
  await begin(person)
  const { accessToken } = await service.loginAs(admin)
  await must(call(`/auth/members/${person.userId}`, { method: 'DELETE', token: accessToken }))
  for (const table of ['second_factors', 'recovery_codes', 'second_factor_challenges'] as const) {
    const rows = await service.db
      .selectFrom(table)
      .select('user_id')
      .where('user_id', '=', person.userId)
      .execute()
    expect([table, rows]).toEqual([table, []])
  }
})
