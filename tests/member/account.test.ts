import { expect, test } from 'vitest'
import { changeUserStatus } from '../../src/operator/users.ts'
import { endUserSessions } from '../../src/session/ending-repository.ts'
import { listAudit } from '../support/audit.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { releaseTogether } from '../support/races.ts'
import { must, useFactorService } from '../support/second-factors.ts'
import { countWaiting, PASSWORD, type Person, times } from '../support/test-service.ts'

const service = await useFactorService()
const { context, mailbox } = service
const { allSent, tokenOf: mailedTokenOf, use } = useService(service, mailbox)
const admin = await service.addCompany({ name: 'Acme' })
const tokenOf = async (person: Person) => (await service.loginAs(person)).accessToken

const ask = async (token: string, newEmail: string) => {
  const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
  return await service.call('/auth/email/change', { token, json: { newEmail, mailCode } })
}
const confirm = (token: string, at = 0) => service.call('/auth/email/confirm', { json: { token }, at })
const preview = (token: string) => service.call('/auth/email/confirm/preview', { json: { token } })
/** Neither the preview nor the confirmation accepts the token. */
async function expectInvalid(token: string): Promise<void> {
  for (const answer of [await preview(token), await confirm(token)]) expectField(answer, '/token')
}

/** A member who has requested a new email, with the emailed token. */
async function asking() {
  const { token, ...person } = await service.signedIn(admin)
  const email = newEmail()
  const { status, body } = await ask(token, email)
  expect([status, body]).toEqual([202, {}])
  const mail = await mailbox.mailTo(email)
  const notice = await mailbox.mailTo(person.email)
  await allSent()
  return { person, token, email, mail, notice, mailed: mail.token }
}

test('a name change takes effect immediately, in its stored form (ASVS 2.2.1)', async () => {
  const { token, ...person } = await service.signedIn(admin)
  const change = (name: string) => service.call('/auth/account', { method: 'PATCH', token, json: { name } })
  const { status, body } = await change('  Ada\u0301 ')
  expect([status, body.name]).toEqual([200, 'Ad\u00e1'])
  expect((await service.getSession({ token, at: 1 })).body.user.name).toBe('Ad\u00e1')
  for (const name of ['', 'a\nb']) expectField(await change(name), '/name')
  await must(change('Ad\u00e1'))
  expect(await listAudit(service.db, 'name_change', person)).toHaveLength(1)
})

test('a session that ends while its change waits changes nothing (ASVS 7.4.3, 15.4.2)', async () => {
  const { token, ...person } = await service.signedIn(admin)
  const renaming = { method: 'PATCH', token, json: { name: 'Mallory' } }
  const { changes } = await service.db.transaction().execute(async (tx) => {
    await endUserSessions(tx, person.companyId, person.userId, 'password_changed')
    const changes = [ask(token, newEmail()), service.call('/auth/account', renaming)]
    await expect.poll(() => countWaiting(service.db)).toBe(2)
    return { changes }
  })
  for (const answer of await Promise.all(changes)) expectProblem(answer, [401, 'session_ended'])
  const users = service.db.selectFrom('users').select(['name', 'pending_email'])
  const user = await users.where('user_id', '=', person.userId).executeTakeFirst()
  expect(user).toEqual({ name: expect.not.stringContaining('Mallory'), pending_email: null })
})

test('a new email must be valid and different (ASVS 1.2.1)', async () => {
  const token = await tokenOf(admin)
  for (const email of ['a@b.example\r\nBcc: x@y.example', admin.email])
    expectField(await ask(token, email), '/newEmail')
})

test('a new email replaces the old one once its link is opened (ASVS 6.3.7)', async () => {
  const { person, token, email, mail, notice, mailed } = await asking()
  expect(mail.email.subject).toBe('Confirm your new email address')
  expect(notice.email.subject).toContain('A new email address was requested')
  for (const words of [mail.raw, notice.raw]) expect(words).not.toContain(PASSWORD)
  const shown = { companyName: 'Acme', email: person.email, newEmail: email }
  for (const _ of times(2, () => 0)) expect((await preview(mailed)).body).toEqual(shown)
  // Nothing has changed yet.
  expect((await service.getSession({ token })).body.user.email).toBe(person.email)
  const reset = await mailedTokenOf('reset', person, person.email)
  expect((await confirm(mailed, 1)).status).toBe(204)
  expect((await service.getSession({ token })).body.user.email).toBe(email)
  expectProblem(await service.login(person), [401, 'invalid_credentials'])
  expect((await service.login({ ...person, email })).status).toBe(200)
  for (const recipient of [person.email, email])
    expect((await mailbox.mailTo(recipient)).email.subject).toContain('was changed')
  await expectInvalid(mailed)
  // Links sent to the old email no longer work.
  expect((await use('reset', reset)).status).toBe(400)
})

test.for<[string, (person: Person, token: string) => Promise<unknown>]>([
  ['a newer request', async (_, token) => await ask(token, newEmail())],
  ['a change of the password', (_, token) => service.changePassword(token)],
  ['a reset of the password', async (one) => use('reset', await mailedTokenOf('reset', one, one.email))],
  ['the user is disabled', (person) => changeUserStatus(context, person.companyId, person, 'disabled')],
])('a new email cannot be confirmed after %s', async ([, act]) => {
  const { person, token, mailed } = await asking()
  service.clock.advance(1)
  await act(person, token)
  await expectInvalid(mailed)
})

const pending = (token: string, method = 'GET') => service.call('/auth/email/change', { method, token })
const later = (seconds: number) => new Date(service.clock.now() + seconds * 1_000).toISOString()

test('a pending new email is shown until it is replaced or its link expires', async () => {
  const { person, token, email } = await asking()
  const shown = { email, requestedAt: later(0), expiresAt: later(24 * 3600) }
  expect((await pending(token)).body).toEqual(shown)
  service.clock.advance(1)
  const newer = newEmail()
  await must(ask(token, newer))
  await allSent()
  expect((await pending(token)).body).toMatchObject({ email: newer, requestedAt: later(0) })
  service.clock.advance(24 * 3600)
  expectProblem(await pending(await tokenOf(person)), [404, 'not_found'])
})

test('a withdrawn email change has no link, and its queued email is not sent', async () => {
  const { person, token, email, mailed } = await asking()
  expect((await pending(token, 'DELETE')).status).toBe(204)
  for (const method of ['GET', 'DELETE']) expectProblem(await pending(token, method), [404, 'not_found'])
  expect(await listAudit(service.db, 'email_change_withdraw', person)).toHaveLength(1)
  const tokens = service.db.selectFrom('one_time_tokens').where('user_id', '=', person.userId)
  expect(await tokens.selectAll().execute()).toEqual([])
  await expectInvalid(mailed)

  await must(ask(token, email))
  await allSent()
  // As if the mail server had not accepted it yet.
  const waiting = { sent_at: null, next_attempt_at: new Date(service.clock.now() + 3_600_000) }
  await service.db.updateTable('mail_outbox').set(waiting).where('recipient', '=', email).execute()
  await service.db.deleteFrom('one_time_tokens').where('email', '=', email).execute()
  expect((await pending(token)).body).toEqual({ email, requestedAt: later(0), expiresAt: null })
  expect((await pending(token, 'DELETE')).status).toBe(204)
  const mails = service.db.selectFrom('mail_outbox').select('kind').where('recipient', '=', email)
  expect(await mails.execute()).toEqual([])
})

test('of a withdrawal and a confirmation, the first one wins (ASVS 15.4.2)', async () => {
  const withdrawn = await asking()
  const held = (person: Person) => ({ table: 'users', ...person }) as const
  const first = await releaseTogether(service.db, held(withdrawn.person), [
    () => pending(withdrawn.token, 'DELETE'),
    () => confirm(withdrawn.mailed, 1),
  ])
  expect(first.map(({ status }) => status)).toEqual([204, 400])
  const confirmed = await asking()
  const second = await releaseTogether(service.db, held(confirmed.person), [
    () => confirm(confirmed.mailed, 1),
    () => pending(confirmed.token, 'DELETE'),
  ])
  expect(second.map(({ status }) => status)).toEqual([204, 404])
  expect((await service.getSession({ token: confirmed.token })).body.user.email).toBe(confirmed.email)
})

test('a new email that another member has taken cannot be confirmed', async () => {
  const { person, token, email, mailed } = await asking()
  await service.addUser(admin, 'viewer', { email })
  expectField(await confirm(mailed), '/token')
  expect((await service.getSession({ token })).body.user.email).toBe(person.email)
  const taken = await ask(token, email)
  expect([taken.status, taken.body]).toEqual([202, {}])
})

test('only one of two members who request the same email gets it', async () => {
  const email = newEmail()
  const tokens = []
  // Within one moment, so that neither link replaces the other.
  for (const person of [await service.addUser(admin), await service.addUser(admin)])
    await ask(await tokenOf(person), email)
  for (const _ of times(2, () => 0)) tokens.push((await mailbox.mailTo(email)).token)
  await allSent()
  const answers = await Promise.all(tokens.map((token, n) => confirm(token, n)))
  expect(answers.filter(({ status }) => status === 204)).toHaveLength(1)
})

test('concurrent requests on two instances confirm a new email once (ASVS 15.4.2)', async () => {
  const { mailed } = await asking()
  const answers = await Promise.all(times(8, (n) => confirm(mailed, n % 2)))
  expect(answers.map(({ status }) => status).sort()).toEqual([204, ...times(7, () => 400)])
})
