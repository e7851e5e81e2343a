import { describe, expect, test } from 'vitest'
import { queueMail } from '../../src/mail/service.ts'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { changeUserStatus, deleteUser } from '../../src/operator/users.ts'
import { expectField, expectProblem } from '../http/problem.ts'
import { selectAudit } from '../support/audit.ts'
import { createAuthenticator } from '../support/authenticator.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { openMailbox } from '../support/mailbox.ts'
import { codeAt, must, ORIGIN, openFactorService, useFactorService } from '../support/second-factors.ts'
import { countWaiting, NEW_PASSWORD, PASSWORD, type Person, times } from '../support/test-service.ts'

/**
 * A password is not enough to keep an account: someone who has learned it adds no factor and changes no email without the
 * mailbox, and the owner of the mailbox can undo what no second factor has confirmed (ASVS 6.3.7, 6.4.3, 7.5.1).
 */

const service = await useFactorService()
const { call, mailbox } = service
const admin = await service.addCompany()
const WITHOUT_FACTOR = 'The email address of your account'
const now = () => service.clock.now()

let count = 0
const newAddress = () => {
  count += 1
  return `moved${count}@elsewhere.example`
}
const tokenOf = async (person: Omit<Person, 'userId'>) =>
  (await service.loginAs(person)).accessToken as string
const undo = (token: string, at = 0) => call('/auth/undo', { json: { token }, at })
const expectInvalid = async (token: string) => expectField(await undo(token), '/token')

/** Gives the account a new email, with the code of the old mailbox, and confirms it. Returns the emails about it. */
async function move(person: { email: string }, token: string, newEmail = newAddress()) {
  const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
  await must(call('/auth/email/change', { token, json: { newEmail, mailCode } }))
  const link = await mailbox.mailTo(newEmail, 'Confirm your new')
  await must(call('/auth/email/confirm', { json: { token: link.token } }))
  return {
    newEmail,
    told: await mailbox.mailTo(person.email, WITHOUT_FACTOR),
    toldThere: await mailbox.mailTo(newEmail, WITHOUT_FACTOR),
  }
}

async function resetPassword(person: Person, password = NEW_PASSWORD) {
  const { token } = await mailbox.mailTo(person.email, 'Reset your password')
  await must(call('/auth/password/reset', { json: { token, newPassword: password } }))
  return { ...person, password }
}

describe('someone who knows the password of an account without a factor, but not its mailbox,', () => {
  test('can add no factor and change no email', async () => {
    const person = await service.addUser(admin)
    const token = await tokenOf(person)
    const { passkeyOptions } = await must(call('/auth/second-factors/passkeys/options', { token }))
    const response = createAuthenticator(ORIGIN).create(passkeyOptions)
    const newEmail = newAddress()
    for (const [path, json] of [
      ['/auth/second-factors/totp', {}],
      ['/auth/second-factors/passkeys', { response, name: 'Mine' }],
      ['/auth/email/change', { newEmail }],
    ] as const) {
      expectField(await call(path, { token, json }), '/mailCode')
      expectField(await call(path, { token, json: { ...json, mailCode: '00000000' } }), '/mailCode')
    }
    expect(mailbox.mails.filter(({ recipients }) => recipients.includes(newEmail))).toEqual([])
    const body = await must(call('/auth/second-factors', { method: 'GET', token }))
    expect(body).toMatchObject({ secondFactors: [], mailCodeRequired: true })
  })

  test('only makes the owner get codes, each for one purpose and one use (ASVS 6.6.2)', async () => {
    const person = await service.addUser(admin)
    const token = await tokenOf(person)
    const ask = (json: object) => call('/auth/second-factors/mail-code', { token, json })
    const codeOf = async () => {
      const { email } = await mailbox.mailTo(person.email, 'Your code for')
      const [, one, two] = /this code: (\d{4}) (\d{4})/.exec(email.text ?? '') ?? []
      return `${one}${two}`
    }
    expect((await ask({ for: 'email' })).status).toBe(202)
    const mailCode = await codeOf()
    expectField(await call('/auth/second-factors/totp', { token, json: { mailCode } }), '/mailCode')
    const json = { newEmail: newAddress(), mailCode }
    expect((await call('/auth/email/change', { token, json })).status).toBe(202)
    expectField(await call('/auth/email/change', { token, json }), '/mailCode')
    expect((await ask({})).status).toBe(202)
    const forFactor = { newEmail: newAddress(), mailCode: await codeOf() }
    expectField(await call('/auth/email/change', { token, json: forFactor }), '/mailCode')
  })
})

describe('the email about a first factor', () => {
  test('has a link that removes factors, password, and sessions, and emails a reset', async () => {
    const person = await service.personWithTotp(admin)
    const { token, email } = await mailbox.mailTo(person.email, 'A second factor was added')
    expect(token).toMatch(/^undo_[A-Za-z0-9_-]{43}$/)
    expect(email.text).toContain(`#token=${token}&company=`)
    const cookie = await service.begin(person)
    const answer = await undo(token)
    expect([answer.status, answer.body]).toMatchObject([
      200,
      { companyId: person.companyId, email: person.email },
    ])
    const { body } = await service.getSession({ token: person.token, at: 1 })
    expect([body.code, body.reason]).toEqual(['session_ended', 'password_reset'])
    expectProblem(await service.login(person), [401, 'invalid_credentials'])
    const code = codeAt(person.secret, now())
    const late = await service.complete({ challenge: cookie.challenge, method: 'totp', code })
    expectProblem(late, [401, 'invalid_second_factor'])
    const owner = await resetPassword(person)
    const { accessToken } = await service.loginAs(owner)
    const left = await must(call('/auth/second-factors', { method: 'GET', token: accessToken }))
    expect(left).toMatchObject({ secondFactors: [], recoveryCodes: 0 })
    const [entry] = await selectAudit(service.db)
      .select(['actor', 'outcome'])
      .where('action', '=', 'undo')
      .where('company_id', '=', person.companyId)
      .where('actor', '=', person.userId)
      .execute()
    expect(entry).toEqual({ actor: person.userId, outcome: 'done' })
  })

  test('has the only link: an existing factor confirmed any later one', async () => {
    const person = await service.personWithTotp(admin)
    await mailbox.mailTo(person.email, 'A second factor was added')
    await service.addPasskey({ token: person.token })
    const later = await mailbox.mailTo(person.email, 'A second factor was added')
    expect(later.token).toBe('')
  })

  test('has a link that works for a user who is disabled, and signs nobody in', async () => {
    const person = await service.personWithTotp(admin)
    const { token } = await mailbox.mailTo(person.email, 'A second factor was added')
    await changeUserStatus(service.context, person.companyId, person, 'disabled')
    expect((await undo(token)).status).toBe(200)
    expectProblem(await service.login(person), [401, 'invalid_credentials'])
    const { status, second_factors: factors } = await service.db
      .selectFrom('users')
      .select(['status', 'second_factors'])
      .where('user_id', '=', person.userId)
      .executeTakeFirstOrThrow()
    expect([status, factors]).toEqual(['disabled', []])
  })
})

describe('the email to the old address about a change that no factor confirmed', () => {
  test('has a link that restores the address, and the new one gets an email', async () => {
    const person = await service.addUser(admin)
    const session = await service.loginAs(person)
    const { newEmail, told, toldThere } = await move(person, session.accessToken)
    expect(told.token).toMatch(/^undo_[A-Za-z0-9_-]{43}$/)
    expect(toldThere.token).toBe('')
    const answer = await undo(told.token, 1)
    const restored = { companyId: person.companyId, email: person.email }
    expect([answer.status, answer.body]).toMatchObject([200, restored])
    expect((await mailbox.mailTo(newEmail, 'was removed from an account')).token).toBe('')
    expect((await service.refresh(session.refreshToken)).body.code).toBe('session_ended')
    for (const email of [person.email, newEmail])
      expectProblem(await service.login({ ...person, email }), [401, 'invalid_credentials'])
    expect((await service.login(await resetPassword(person))).status).toBe(200)
    await expectInvalid(told.token)
  })

  test('has no link if a second factor confirmed it, even one that is removed', async () => {
    const person = await service.personWithTotp(admin)
    const newEmail = newAddress()
    await must(call('/auth/email/change', { token: person.token, json: { newEmail } }))
    const { token } = await mailbox.mailTo(newEmail, 'Confirm your new')
    await must(call(`/auth/second-factors/${person.id}`, { method: 'DELETE', token: person.token }))
    await must(call('/auth/email/confirm', { json: { token } }))
    const told = await mailbox.mailTo(person.email, WITHOUT_FACTOR)
    expect(told.token).toBe('')
    expectField(
      await call('/auth/email/change', {
        token: person.token,
        json: { newEmail: newAddress(), mailCode: '12345678' },
      }),
      '/mailCode',
    )
  })

  test('has a link that undoes later factors, addresses, links, and undos', async () => {
    const person = await service.addUser(admin, 'admin')
    const token = await tokenOf(person)
    const first = await move(person, token)
    const second = await move({ email: first.newEmail }, token)
    const thief = { ...person, email: second.newEmail }
    await service.addTotp({ token })
    const added = await mailbox.mailTo(thief.email, 'A second factor was added')
    const pending = newAddress()
    await must(call('/auth/email/change', { token, json: { newEmail: pending } }))
    const confirmation = await mailbox.mailTo(pending, 'Confirm your new')
    await must(call('/auth/password/forgot', { json: { companyId: thief.companyId, email: thief.email } }))
    const reset = await mailbox.mailTo(thief.email, 'Reset your password')
    const invited = newAddress()
    await must(call('/auth/invitations', { token, json: { email: invited, role: 'admin' } }))
    const invitation = await mailbox.mailTo(invited, 'Your invitation')

    expect((await undo(first.told.token)).body).toMatchObject({
      companyId: person.companyId,
      email: person.email,
    })
    for (const later of [second.told.token, added.token]) {
      expect(later).toMatch(/^undo_/)
      await expectInvalid(later)
    }
    expectField(await call('/auth/email/confirm', { json: { token: confirmation.token } }), '/token')
    const newPassword = NEW_PASSWORD
    expectField(await call('/auth/password/reset', { json: { token: reset.token, newPassword } }), '/token')
    const acceptance = { token: invitation.token, name: 'Eve', password: PASSWORD }
    expectField(await call('/auth/invitations/accept', { json: acceptance }), '/token')
    expectProblem(await service.login(thief), [401, 'invalid_credentials'])
    const owner = await resetPassword(person)
    expect((await service.login(owner)).status).toBe(200)
  })

  test('has a link that works after a later change was undone', async () => {
    const person = await service.addUser(admin)
    const first = await move(person, await tokenOf(person))
    const second = await move({ email: first.newEmail }, await tokenOf({ ...person, email: first.newEmail }))
    expect((await undo(second.told.token)).body.email).toBe(first.newEmail)
    expect((await undo(first.told.token)).body.email).toBe(person.email)
    expect((await service.login(await resetPassword(person))).status).toBe(200)
  })

  test('has a link that works after a reset and a change of the password', async () => {
    const person = await service.addUser(admin)
    const { newEmail, told } = await move(person, await tokenOf(person))
    await must(call('/auth/password/forgot', { json: { companyId: person.companyId, email: newEmail } }))
    const thief = await resetPassword({ ...person, email: newEmail })
    const json = { currentPassword: thief.password, newPassword: `${NEW_PASSWORD} again` }
    await must(call('/auth/password/change', { token: await tokenOf(thief), json }))
    expect((await undo(told.token)).status).toBe(200)
    expectProblem(await service.login({ ...thief, password: json.newPassword }), [401, 'invalid_credentials'])
  })

  test('comes when codes of the old mailbox and unconfirmed apps no longer work', async () => {
    for (const [mail, path] of [
      ['email_change_code', '/auth/email/change'],
      ['mailbox_code', '/auth/second-factors/totp'],
    ] as const) {
      const person = await service.addUser(admin)
      const token = await tokenOf(person)
      const newEmail = newAddress()
      const given = await mailedCodeOf(service, { token }, 'email_change_code')
      await must(call('/auth/email/change', { token, json: { newEmail, mailCode: given } }))
      const link = await mailbox.mailTo(newEmail, 'Confirm your new')
      const app = await service.beginTotp({ token })
      const mailCode = await mailedCodeOf(service, { token }, mail)
      await must(call('/auth/email/confirm', { json: { token: link.token } }))
      const json = mail === 'mailbox_code' ? { mailCode } : { mailCode, newEmail: newAddress() }
      expectField(await call(path, { token, json }), '/mailCode')
      const confirmed = await call(`/auth/second-factors/totp/${app.id}/confirm`, {
        token,
        json: { code: codeAt(app.secret, now()) },
      })
      expectProblem(confirmed, [404, 'not_found'])
    }
  })

  test('has a link that keeps invitations from before the change', async () => {
    const person = await service.addUser(admin, 'admin')
    const token = await tokenOf(person)
    const [before, since] = [newAddress(), newAddress()]
    await must(call('/auth/invitations', { token, json: { email: before, role: 'viewer' } }))
    service.clock.advance(120)
    const { told } = await move(person, token)
    await must(call('/auth/invitations', { token, json: { email: since, role: 'viewer' } }))
    await must(undo(told.token))
    const { invitations } = await must(
      call('/auth/invitations', { method: 'GET', token: await tokenOf(admin) }),
    )
    const emails = invitations.map(({ email }: { email: string }) => email)
    expect([emails.includes(before), emails.includes(since)]).toEqual([true, false])
  })
})

describe('a link to undo', () => {
  test('works for 72 hours, once under concurrency on two instances (ASVS 2.3.4, 6.5.1, 15.4.2)', async () => {
    const [early, late] = [await service.addUser(admin), await service.addUser(admin)]
    const linkOf = async (person: Person) => (await move(person, await tokenOf(person))).told.token
    const links = [await linkOf(early), await linkOf(late)]
    service.clock.advance(72 * 3600 - 60)
    const answers = await Promise.all(times(8, (n) => undo(links[0] ?? '', n % 2)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...times(7, () => 400)])
    service.clock.advance(120)
    await expectInvalid(links[1] ?? '')
  })

  test('fails with a reason when a different member has the address', async () => {
    const person = await service.addUser(admin)
    const { newEmail, told } = await move(person, await tokenOf(person))
    await service.addUser(admin, 'viewer', { email: person.email })
    const answer = await undo(told.token)
    expectField(answer, '/token')
    expect(answer.body.errors[0].message).toContain('another member')
    expect((await service.login({ ...person, email: newEmail })).status).toBe(200)
  })

  test('no longer works after deletion, which leaves nothing of the old address', async () => {
    const person = await service.addUser(admin)
    const { told, newEmail } = await move(person, await tokenOf(person))
    await deleteUser(service.context, person.companyId, { userId: person.userId }, now())
    await expectInvalid(told.token)
    const mails = await service.db
      .selectFrom('mail_outbox')
      .select('recipient')
      .where('recipient', 'in', [person.email, newEmail])
      .execute()
    const tokens = await service.db
      .selectFrom('one_time_tokens')
      .select('email')
      .where('email', 'in', [person.email, newEmail])
      .execute()
    expect([mails, tokens]).toEqual([[], []])
  })

  test('that is emailed while a deletion waits leaves no address', async () => {
    const { companyId, userId, email } = await service.addUser(admin)
    const deleting = await service.db.transaction().execute(async (tx) => {
      await tx.selectFrom('users').select('user_id').where('user_id', '=', userId).forUpdate().execute()
      const deleting = deleteUser(service.context, companyId, { userId }, now())
      await expect.poll(() => countWaiting(service.db)).toBe(1)
      // As a first factor does that held the member before.
      const mail = { kind: 'first_factor_added', recipient: email, data: { userId } } as const
      await queueMail(service.db, service.clock, companyId, { ...mail, now: now() })
      await mailbox.mailTo(email, 'A second factor was added')
      return { done: deleting }
    })
    await deleting.done
    const tokens = service.db.selectFrom('one_time_tokens').select('email')
    expect(await tokens.where('email', '=', email).execute()).toEqual([])
  })

  test('works in a suspended company, and signs nobody in', async () => {
    const other = await service.addCompany()
    const person = await service.addUser(other)
    const { told } = await move(person, await tokenOf(person))
    await changeCompanyStatus(service.context, other.companyId, 'suspended')
    expect((await undo(told.token)).status).toBe(200)
    expectProblem(await service.login(person), [401, 'invalid_credentials'])
  })

  test('is not consumed by GET (ASVS 14.2.1)', async () => {
    expect((await call('/auth/undo', { method: 'GET' })).status).toBe(405)
    expect((await call('/../undo', { method: 'GET' })).status).toBe(200)
    for (const token of ['', 'undo_', `undo_${'A'.repeat(43)}`, `reset_${'A'.repeat(43)}`])
      await expectInvalid(token)
  })

  test('is not emailed again after its use, if the mail server did not acknowledge it', async () => {
    let taken = ''
    const broken = await openMailbox({
      onMessage: ({ token }) => {
        if (!token.startsWith('undo_')) return
        taken = token
        throw Object.assign(new Error('try again'), { responseCode: 451 })
      },
    })
    const other = await openFactorService({ env: { SMTP_URL: broken.url } })
    await other.personWithTotp(await other.addCompany())
    await expect.poll(() => taken).toMatch(/^undo_/)
    expect((await other.call('/auth/undo', { json: { token: taken } })).status).toBe(200)
    const waiting = other.db.selectFrom('mail_outbox').select('mail_id')
    expect(await waiting.where('kind', '=', 'first_factor_added').execute()).toEqual([])
  })

  test('invalidates a later one that is emailed while it waits for the member (ASVS 15.4.2)', async () => {
    const person = await service.addUser(admin)
    const { companyId, userId } = person
    const { newEmail, told } = await move(person, await tokenOf(person))
    const { undoing, later } = await service.db.transaction().execute(async (tx) => {
      await tx.selectFrom('users').select('user_id').where('user_id', '=', userId).forUpdate().execute()
      const undoing = undo(told.token)
      await expect.poll(() => countWaiting(service.db)).toBe(1)
      // As a change does that held the member before.
      const mail = { kind: 'email_changed_without_factor', recipient: newEmail, data: { userId } } as const
      await queueMail(service.db, service.clock, companyId, { ...mail, now: now() })
      const { token } = await mailbox.mailTo(newEmail, WITHOUT_FACTOR)
      return { undoing, later: token }
    })
    expect((await undoing).status).toBe(200)
    expect(later).toMatch(/^undo_/)
    await expectInvalid(later)
  })

  test('does not deadlock with a change that is confirmed at the same moment', async () => {
    const person = await service.addUser(admin)
    const { companyId } = person
    const token = await tokenOf(person)
    const { newEmail: email, told } = await move(person, token)
    const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
    const newEmail = newAddress()
    await must(call('/auth/email/change', { token, json: { newEmail, mailCode } }))
    const link = await mailbox.mailTo(newEmail, 'Confirm your new')
    await must(call('/auth/password/forgot', { json: { companyId, email } }))
    await mailbox.mailTo(email, 'Reset your password')
    const answers = await service.db.transaction().execute(async (tx) => {
      await tx.selectFrom('one_time_tokens').select('email').where('email', '=', email).forUpdate().execute()
      const confirming = call('/auth/email/confirm', { json: { token: link.token } })
      await expect.poll(() => countWaiting(service.db)).toBe(1)
      // It is not sent yet.
      const mail = { kind: 'password_reset', recipient: email, data: {}, now: now() + 3_600_000 } as const
      await queueMail(service.db, service.clock, companyId, mail)
      const undoing = undo(told.token, 1)
      await expect.poll(() => countWaiting(service.db)).toBe(2)
      return [confirming, undoing]
    })
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([204, 200])
  })

  test('wins over a factor and an address that are added at the same moment (ASVS 15.4.2)', async () => {
    const person = await service.addUser(admin)
    const token = await tokenOf(person)
    const { told } = await move(person, token)
    const { id, secret } = await service.beginTotp({ token })
    const newEmail = newAddress()
    const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
    await must(call('/auth/email/change', { token, json: { newEmail, mailCode } }))
    const link = await mailbox.mailTo(newEmail, 'Confirm your new')
    const json = { code: codeAt(secret, now()) }
    const answers = await service.db.transaction().execute(async (tx) => {
      await tx
        .selectFrom('users')
        .select('user_id')
        .where('user_id', '=', person.userId)
        .forUpdate()
        .execute()
      const waiting = [
        undo(told.token),
        call(`/auth/second-factors/totp/${id}/confirm`, { token, json, at: 1 }),
        call('/auth/email/confirm', { json: { token: link.token }, at: 1 }),
      ]
      await expect.poll(() => countWaiting(service.db)).toBe(3)
      return waiting
    })
    const [undone, ...others] = await Promise.all(answers)
    expect(undone?.status).toBe(200)
    for (const { status } of others) expect(status).toBeLessThan(500)
    const user = await service.db
      .selectFrom('users')
      .select(['email', 'pending_email', 'second_factors', 'password_hash'])
      .where('user_id', '=', person.userId)
      .executeTakeFirst()
    expect(user).toEqual({ email: person.email, pending_email: null, second_factors: [], password_hash: '' })
    const tokens = await service.db
      .selectFrom('one_time_tokens')
      .select('purpose')
      .where('user_id', '=', person.userId)
      .execute()
    expect(tokens).toEqual([])
    expect((await service.login({ ...person, password: PASSWORD })).status).toBe(401)
  })
})
