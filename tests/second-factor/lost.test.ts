import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { settleLapsedAcrossCompanies } from '../../src/sign-in/lapsed.ts'
import { listAudit } from '../support/audit.ts'
import { newEmail } from '../support/onboarding.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { COOKIE_MODE, expectWrong, must, useFactorService } from '../support/second-factors.ts'
import { NEW_PASSWORD, times } from '../support/test-service.ts'

/** Lost factors, stolen passwords, and guessed codes (ASVS 6.3.1, 6.4.4, 6.6.3). */

const service = await useFactorService()
const admin = await service.addCompany()
const { accessToken: byAdmin } = await service.loginAs(admin)
const { call, begin, complete, totpOf } = service
const now = () => service.clock.now()

/** The token of the next emailed link to set a password. */
const linkTo = async (address: string) => (await service.mailbox.mailTo(address, 'Reset your password')).token

const resetBy = (token: string) =>
  call('/auth/password/reset', { json: { token, newPassword: NEW_PASSWORD } })
const withNewPassword = async <P extends { email: string }>(person: P) => {
  expect((await resetBy(await linkTo(person.email))).status).toBe(204)
  return { ...person, password: NEW_PASSWORD }
}

const reset = (id: string) => call(`/auth/members/${id}/second-factors`, { method: 'DELETE', token: byAdmin })

test('a reset removes all credentials, and emails a link (ASVS 6.4.4, 6.4.6)', async () => {
  const person = await service.personWithTotp(admin)
  const { accessToken } = await must(service.signInByTotp(person))
  const json = { newEmail: newEmail() }
  await must(call('/auth/email/change', { token: accessToken, json }))
  const { token: confirmation } = await service.mailbox.mailTo(json.newEmail)
  await must(call('/auth/password/forgot', { json: { companyId: person.companyId, email: person.email } }))
  const old = await linkTo(person.email)
  const open = await begin(person)
  const member = await must(call(`/auth/members/${person.userId}`, { method: 'GET', token: byAdmin }))
  expect(member.secondFactors).toEqual(['totp'])
  expect((await reset(person.userId)).status).toBe(204)

  const [entry] = await listAudit(service.db, 'second_factors_reset', person)
  expect(entry).toMatchObject({ actor: admin.userId, outcome: 'done' })
  await service.expectEnded({ token: accessToken }, 'ended_by_admin')
  expectWrong(await complete({ challenge: open.challenge, ...totpOf(person) }))
  expectProblem(await service.login(person), [401, 'invalid_credentials'])
  const confirmed = await call('/auth/email/confirm', { json: { token: confirmation } })
  for (const answer of [await resetBy(old), confirmed]) expectField(answer, '/token')
  await service.mailbox.mailTo(person.email, 'Your password and second factors')
  const again = await withNewPassword(person)
  const { accessToken: token } = await service.loginAs(again)
  const factors = await must(call('/auth/second-factors', { method: 'GET', token }))
  expect(factors).toMatchObject({ secondFactors: [], recoveryCodes: 0 })
  await service.addTotp({ token })
  const { challenge } = await begin(again)
  const [code] = person.recoveryCodes ?? []
  expectWrong(await complete({ challenge, method: 'recovery_code', code }))
})

test('a reset of factors applies only to other people of the company', async () => {
  expectProblem(await reset(admin.userId), [403, 'permission_denied'])
  const account = await service.addServiceAccount(admin, byAdmin)
  expectProblem(await reset(account.id), [404, 'not_found'])
  expect((await service.loginAs(account)).user.id).toBe(account.id)
})

test('thirty wrong codes in a row revoke the password (ASVS 6.4.3, 6.6.3)', async () => {
  const person = await service.personWithPasskey(admin)
  await service.addTotp({ token: person.token })
  const guess = async () => {
    const { challenge } = await begin(person)
    expectWrong(await complete({ challenge, method: 'totp', code: '000000' }))
  }
  const useRecoveryCode = (challenge: string, index: number) =>
    complete({ challenge, method: 'recovery_code', code: person.recoveryCodes?.[index] })
  const user = service.db.updateTable('users').where('user_id', '=', person.userId)
  await user.set({ wrong_codes: 28 }).execute()
  await guess()
  // A correct code resets the count.
  expect((await useRecoveryCode((await begin(person)).challenge, 0)).status).toBe(200)
  for (const _ of times(2, () => 0)) await guess()
  await user.set({ wrong_codes: 29 }).execute()
  const waiting = await begin(person)
  await guess()
  expectProblem(await service.login(person), [401, 'invalid_credentials'])
  expectWrong(await useRecoveryCode(waiting.challenge, 1))
  await service.mailbox.mailTo(person.email, 'Someone knows your password')
  await service.expectEnded(person, 'password_reset')
  // The member's passkeys still work.
  expect((await service.signInByPasskey(person)).status).toBe(200)
  const after = await withNewPassword(person)
  const [entry] = await listAudit(service.db, 'password_void', person)
  expect(entry).toMatchObject({ outcome: 'done', actor: null })
  expect((await begin(after)).methods).toContain('totp')
})

const settle = () => settleLapsedAcrossCompanies({ db: service.db, system: service.clock }, now())
/** Until a challenge has expired, and 15 minutes more. */
const LAPSED_SECONDS = 301 + 480
const missing = async (email: string) => {
  const mails = service.db.selectFrom('mail_outbox').select('kind').where('recipient', '=', email)
  return await mails.where('kind', '=', 'second_factor_missing').execute()
}

test('a sign-in without its second factor is emailed once a day (ASVS 6.3.5)', async () => {
  const person = await service.personWithTotp(admin)
  for (const _ of times(3, () => 0)) await begin(person)
  service.clock.advance(LAPSED_SECONDS - 2)
  await settle()
  expect(await missing(person.email)).toEqual([])
  service.clock.advance(2)
  await Promise.all([settle(), settle()])
  const { email } = await service.mailbox.mailTo(person.email, 'without your second factor')
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
  const left = service.db.selectFrom('second_factor_challenges').where('user_id', '=', person.userId)
  expect(await left.select('purpose').execute()).toEqual([])
})

test('a sign-in is not reported if completed or if the password changed', async () => {
  const byPasskey = await service.personWithPasskey(admin)
  const [byCookie, changed] = [await service.personWithTotp(admin), await service.personWithTotp(admin)]
  await begin(byPasskey)
  await must(service.signInByPasskey(byPasskey))
  await begin(byCookie, { headers: COOKIE_MODE })
  const { refreshToken } = await must(service.signInByTotp(byCookie))
  await begin(changed)
  await service.changePassword(changed.token)
  service.clock.advance(LAPSED_SECONDS)
  await settle()
  for (const { email } of [byPasskey, byCookie, changed]) expect(await missing(email)).toEqual([])
  expect((await service.refresh(refreshToken)).status).toBe(200)
})

test('a sign-in is not reported if its network completes a later one', async () => {
  const [person, other] = [await service.personWithTotp(admin), await service.personWithTotp(admin)]
  for (const one of [person, other]) await begin(one)
  await sql`update second_factor_challenges set network = '203.0.113.5'
    where user_id = ${other.userId}`.execute(service.db)
  service.clock.advance(360)
  await settle()
  for (const each of [person, other]) await must(service.signInByTotp(each))
  service.clock.advance(LAPSED_SECONDS)
  await settle()
  expect(await missing(person.email)).toEqual([])
  // A different network started this sign-in.
  expect(await missing(other.email)).toHaveLength(1)
})

test('a deleted member leaves no factor behind (ASVS 14.2.7)', async () => {
  const person = await service.personWithTotp(admin)
  await service.addPasskey({ token: person.token })
  await begin(person)
  const { accessToken } = await service.loginAs(admin)
  await must(call(`/auth/members/${person.userId}`, { method: 'DELETE', token: accessToken }))
  for (const table of ['second_factors', 'recovery_codes', 'second_factor_challenges'] as const) {
    const rows = service.db.selectFrom(table).select('user_id').where('user_id', '=', person.userId)
    expect([table, await rows.execute()]).toEqual([table, []])
  }
})
