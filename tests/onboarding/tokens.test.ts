import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { changeUserStatus, createUser, invite } from '../../src/operator/users.ts'
import { ended } from '../session/state.ts'
import { openMailbox } from '../support/mailbox.ts'
import { newEmail, type Purpose, useService } from '../support/onboarding.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { must } from '../support/second-factors.ts'
import {
  type Answer,
  createClock,
  NEW_PASSWORD,
  openTestService,
  PASSWORD,
  type Person,
  times,
  useSharedService,
} from '../support/test-service.ts'

/** Tokens of emailed links: verify an email address, reset a password, accept an invitation. */

const { service, mailbox } = await useSharedService()
const { register, tokenOf, use } = useService(service, mailbox)

const PURPOSES: Purpose[] = ['verify', 'reset', 'invite']
const SUCCESS = { verify: 200, reset: 204, invite: 201 }

/** Creates a user and a token with that purpose. */
async function prepare(purpose: Purpose): Promise<Person & { token: string }> {
  if (purpose === 'verify') return await register()
  const person = await service.addCompany()
  const email = purpose === 'invite' ? newEmail() : person.email
  return { ...person, email, token: await tokenOf(purpose, person, email) }
}

function expectNoSuchToken(answer: Answer) {
  expectProblem(answer, [400, 'invalid_request'])
  expect(answer.body.errors).toEqual([{ path: '/token', message: 'is invalid, used, replaced, or expired' }])
}

const usersOf = ({ companyId }: { companyId: string }) =>
  service.db.selectFrom('users').selectAll().where('company_id', '=', companyId).orderBy('email').execute()

test.for(PURPOSES)(
  'a token to %s works once, for its purpose and active company (ASVS 6.4.1, 6.5.1, 6.6.2)',
  async (purpose) => {
    const { companyId, token } = await prepare(purpose)
    const before = await usersOf({ companyId })
    const secret = token.slice(token.indexOf('_') + 1)
    for (const other of PURPOSES.filter((one) => one !== purpose)) {
      expectNoSuchToken(await use(other, token))
      expectNoSuchToken(await use(other, `${other}_${secret}`))
    }
    const broken = ['', `${purpose}_`, 'x'.repeat(1_000), `${purpose}_${'A'.repeat(43)}`, `${purpose}_é`]
    for (const one of [...broken, secret, token.toUpperCase(), `${token} `])
      expectNoSuchToken(await use(purpose, one))
    await changeCompanyStatus(service.context, companyId, 'suspended')
    expectNoSuchToken(await use(purpose, token))
    expect(await usersOf({ companyId })).toEqual(before)
    await changeCompanyStatus(service.context, companyId, 'active')
    // Only one of concurrent uses on two instances succeeds (ASVS 2.3.4, 15.4.2).
    const answers = await Promise.all(times(10, (n) => use(purpose, token, { at: n % 2 })))
    expect(answers.filter(({ status }) => status === SUCCESS[purpose])).toHaveLength(1)
    for (const answer of answers.filter(({ status }) => status !== SUCCESS[purpose]))
      expectNoSuchToken(answer)
  },
)

test.for([
  ['verify', 24 * 3600],
  ['reset', 3600],
  ['invite', 72 * 3600],
] as const)('a token to %s expires after %i seconds (ASVS 6.5.5)', async ([purpose, seconds]) => {
  const [early, late] = await Promise.all([prepare(purpose), prepare(purpose)])
  service.clock.advance(seconds - 30)
  expect((await use(purpose, early.token)).status).toBe(SUCCESS[purpose])
  service.clock.advance(40)
  expectNoSuchToken(await use(purpose, late.token))
})

test("a token works only for its own company's account (ASVS 8.4.1)", async () => {
  const email = newEmail()
  const addUser = async () => await service.addUser(await service.addCompany(), 'viewer', { email })
  const [here, there] = [await addUser(), await addUser()]
  const token = await tokenOf('reset', here, email)
  const session = await service.loginAs(there)
  expect((await use('reset', token)).status).toBe(204)
  expect((await service.login(here)).status).toBe(401)
  expect((await service.login(there)).status).toBe(200)
  expect((await service.getSession({ token: session.accessToken })).status).toBe(200)
})

test('a newer link replaces the older one, even after a database error', async () => {
  const person = await service.addUser(await service.addCompany(), 'viewer', { email: newEmail() })
  const older = await tokenOf('reset', person, person.email)
  await sql`create sequence notes`.execute(service.db)
  await sql`create function fail_once() returns trigger language plpgsql as $$ begin
    if nextval('notes') = 1 then raise exception 'not now'; end if; return new; end $$`.execute(service.db)
  await sql`create trigger fail before update on one_time_tokens for each row
    when (new.email = ${sql.lit(person.email)}) execute function fail_once()`.execute(service.db)
  const newer = await tokenOf('reset', person, person.email)
  await sql`drop trigger fail on one_time_tokens`.execute(service.db)
  expectNoSuchToken(await use('reset', older))
  expect((await use('reset', newer)).status).toBe(204)
})

test('a reset token survives a refused password, and verifies the email address', async () => {
  const person = await register()
  const token = await tokenOf('reset', person, person.email)
  for (const password of ['short', person.email, `Company of ${person.email}`])
    expectField(await use('reset', token, { password }), '/newPassword')
  expect((await service.login(person)).body.code).toBe('email_not_verified')
  expect((await use('reset', token)).status).toBe(204)
  expect((await service.login({ ...person, password: NEW_PASSWORD })).status).toBe(200)
})

test("a reset ends the user's sessions and withdraws their invitations (ASVS 7.4.3)", async () => {
  const admin = await service.addCompany()
  const { accessToken, refreshToken } = await service.loginAs(admin)
  const cookie = await service.cookieOf(admin)
  const colleague = await service.loginAs(await service.addUser(admin, 'admin'))
  const invited: string[] = []
  for (const token of [accessToken, accessToken, colleague.accessToken]) {
    const email = newEmail()
    await service.call('/auth/invitations', { token, json: { email, role: 'viewer' } })
    invited.push((await mailbox.mailTo(email, 'Your invitation')).token)
  }
  expect((await use('reset', await tokenOf('reset', admin, admin.email))).status).toBe(204)
  for (const credential of [{ token: accessToken }, { cookie }])
    expect(await service.getSession({ ...credential, at: 1 })).toMatchObject(ended('password_reset'))
  expect(await service.refresh(refreshToken, { at: 1 })).toMatchObject(ended('password_reset'))
  expect((await service.getSession({ token: colleague.accessToken })).status).toBe(200)
  const { email: told } = await mailbox.mailTo(admin.email, 'was changed')
  expect(told.text).toContain('2 invitations you had sent were withdrawn')
  const [first = '', second = '', others = ''] = invited
  for (const withdrawn of [first, second]) expectNoSuchToken(await use('invite', withdrawn))
  expect((await use('invite', others)).status).toBe(201)
})

test('an invitation token survives previews, and a refused name or password', async () => {
  const email = newEmail()
  const company = await service.addCompany({ name: 'Acme' })
  const token = await tokenOf('invite', company, email)
  const preview = () => service.call('/auth/invitations/preview', { json: { token } })
  const accept = (json: object) =>
    service.call('/auth/invitations/accept', { json: { token, name: 'Bob', password: PASSWORD, ...json } })
  const offer = { companyName: 'Acme', email, role: 'viewer' }
  for (const _ of times(2, () => 0)) expect(await preview()).toMatchObject({ status: 200, body: offer })
  expectField(await accept({ password: 'short' }), '/password')
  expectField(await accept({ name: 'Bob\r\nBcc: x@x.example' }), '/name')
  expect((await accept({})).status).toBe(201)
  expectNoSuchToken(await preview())
  expect((await service.loginAs({ ...company, email })).user).toMatchObject({ name: 'Bob', role: 'viewer' })
})

test('two invitations to spellings of one email create one account', async () => {
  const person = await service.addCompany()
  const email = newEmail()
  await invite(service.context, person.companyId, { email: email.toUpperCase(), role: 'viewer' })
  const { token: first } = await mailbox.mailTo(email)
  await invite(service.context, person.companyId, { email, role: 'analyst' })
  const { token: second } = await mailbox.mailTo(email)
  const answers = await Promise.all(
    times(8, (i) => use('invite', i % 2 ? first : second, { at: Math.floor(i / 2) % 2 })),
  )
  for (const { status } of answers) expect([201, 400]).toContain(status)
  const accepted = answers.filter(({ status }) => status === 201)
  expect(accepted).toHaveLength(1)
  const users = (await usersOf(person)).filter((user) => user.email === email)
  expect(users.map(({ user_id: id }) => id)).toEqual([accepted[0]?.body.userId])
})

test('an invitation is dropped if its email would follow a later one', async () => {
  let refusals = 1
  const busy = await openMailbox({
    onMessage() {
      if (refusals-- > 0) throw Object.assign(new Error('later'), { responseCode: 451 })
    },
  })
  const own = await openTestService({ env: { SMTP_URL: busy.url } })
  const { companyId } = await own.addCompany()
  const email = newEmail()
  await invite(own.context, companyId, { email, role: 'admin' })
  const errors = () => own.db.selectFrom('mail_outbox').select('last_error').execute()
  await expect.poll(errors).toEqual([{ last_error: expect.stringContaining('451') }])
  own.clock.advance(1)
  await invite(own.context, companyId, { email, role: 'viewer' })
  const { token } = await busy.mailTo(email)
  own.clock.advance(10)
  await useService(own, busy).allSent()
  expect(busy.mails).toHaveLength(1)
  const preview = await own.call('/auth/invitations/preview', { json: { token } })
  expect([preview.status, preview.body.role]).toEqual([200, 'viewer'])
})

test('disabled users cannot reset, and existing users cannot accept an invitation', async () => {
  const [person, email] = [await service.addUser(await service.addCompany()), newEmail()]
  const reset = await tokenOf('reset', person, person.email)
  await changeUserStatus(service.context, person.companyId, person, 'disabled')
  const invitation = await tokenOf('invite', person, email)
  await createUser(service.context, person.companyId, { email, role: 'admin', password: PASSWORD })
  const before = await usersOf(person)
  expectNoSuchToken(await use('reset', reset))
  expectNoSuchToken(await use('invite', invitation))
  expect(await usersOf(person)).toEqual(before)
})

describe('clocks of instances that differ by 45 s (ASVS 6.5.1)', async () => {
  const [ahead, behind] = [createClock(), createClock()]
  behind.advance(-45)
  const env = { SMTP_URL: mailbox.url }
  const apart = await openTestService({ instances: 2, clocks: [ahead, behind], env })
  const admin = await apart.addCompany()
  const { accessToken: token } = await apart.loginAs(admin)
  const { allSent, use } = useService(apart, mailbox)
  /** Sends a request to an instance, and returns the emailed token. */
  async function mailed(email: string, path: string, json: object, at: number): Promise<string> {
    await must(apart.call(path, { json, at, token }))
    const mail = await mailbox.mailTo(email, path.includes('invitations') ? 'invitation' : 'Reset')
    await allSent()
    return mail.token
  }
  /** A member, and a function that requests their reset at an instance. */
  async function addForgetful() {
    const { companyId, email } = await apart.addUser(admin, 'viewer', { email: newEmail() })
    const forgot = (at: number) => mailed(email, '/auth/password/forgot', { companyId, email }, at)
    return { companyId, email, forgot }
  }

  test('a later reset replaces an earlier one, even with differing clocks', async () => {
    const { email, forgot } = await addForgetful()
    const [first, second] = [await forgot(0), await forgot(1)]
    expectNoSuchToken(await use('reset', first))
    expectField(await use('reset', second, { password: 'short' }), '/newPassword')
    // Simulates a later request, whose email was accepted while this token was being inserted.
    await sql`
      insert into one_time_tokens (company_id, purpose, email, token_hash, created_at, expires_at, request_number, is_sent)
      select company_id, purpose, email, ${Buffer.alloc(32, 1)}, created_at - interval '45 seconds', expires_at,
        request_number + 1, true
      from one_time_tokens where email = ${email}`.execute(apart.db)
    expectNoSuchToken(await use('reset', second))
  })

  test('a later or resent invitation replaces an earlier one despite differing clocks', async () => {
    const email = newEmail()
    const send = (at: number) => mailed(email, '/auth/invitations', { email, role: 'viewer' }, at)
    const [first, second] = [await send(0), await send(1)]
    const { invitations } = (await apart.call('/auth/invitations', { method: 'GET', token })).body
    expect(invitations).toMatchObject([{ email, mail: 'sent' }])
    const third = await mailed(email, `/auth/invitations/${invitations[0].id}/resend`, {}, 1)
    for (const replaced of [first, second]) expectNoSuchToken(await use('invite', replaced))
    expect((await use('invite', third)).status).toBe(201)
  })

  test('concurrent requests for a reset leave one working link', async () => {
    const { companyId, email } = await addForgetful()
    const json = { companyId, email }
    await Promise.all(times(8, (n) => apart.call('/auth/password/forgot', { json, at: n % 2 })))
    await allSent()
    const mails = mailbox.mails.filter(({ recipients }) => recipients.includes(email))
    const works = []
    for (const { token } of mails) {
      // A refused password does not consume the token.
      const refused = await use('reset', token, { password: 'short' })
      if (refused.body.errors[0].path === '/newPassword') works.push(token)
    }
    expect(works).toHaveLength(1)
    const tokens = apart.db.selectFrom('one_time_tokens').select('is_sent').where('email', '=', email)
    expect(await tokens.execute()).toEqual([{ is_sent: true }])
  })
})
