import { describe, expect, test } from 'vitest'
import { queueMail } from '../../src/mail/service.ts'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { changeUserStatus, deleteUser } from '../../src/operator/users.ts'
import { expectField, expectProblem } from '../http/problem.ts'
import { selectAudit } from '../support/audit.ts'
import { createAuthenticator } from '../support/authenticator.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { openMailbox } from '../support/mailbox.ts'
import { codeAt, must, ORIGIN, openFactorService } from '../support/second-factors.ts'
import { countWaiting, openTestService, PASSWORD, type Person, times } from '../support/test-service.ts'

/**
 * A password alone is no lasting hold on an account: who has learnt it adds no factor and moves no address without the
 * mailbox, and who had the mailbox takes back what no second factor has proven (ASVS 6.3.7, 6.4.3, 7.5.1).
 */

const service = await openFactorService({ instances: 2 })
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
const expectDead = async (token: string) => expectField(await undo(token), '/token')

/** The owner's mailbox gives another address to the account, and confirms it. Returns the mail to the address until then. */
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

async function chooseAnother(person: Person, password = 'a password nobody knows') {
  const { token } = await mailbox.mailTo(person.email, 'Reset your password')
  await must(call('/auth/password/reset', { json: { token, newPassword: password } }))
  return { ...person, password }
}

describe('who knows the password of somebody without a factor, but not the mailbox,', () => {
  test('adds no factor and moves no address, with a session of their own or with one of the owner', async () => {
    const person = await service.addUser(admin)
    for (const token of [await tokenOf(person), await tokenOf(person)]) {
      expectField(await call('/auth/second-factors/totp', { token }), '/mailCode')
      expectField(
        await call('/auth/second-factors/totp', { token, json: { mailCode: '00000000' } }),
        '/mailCode',
      )
      const { passkeyOptions } = await must(call('/auth/second-factors/passkeys/options', { token }))
      const response = createAuthenticator(ORIGIN).create(passkeyOptions)
      const passkey = { response, name: 'Mine' }
      expectField(await call('/auth/second-factors/passkeys', { token, json: passkey }), '/mailCode')
      const json = { newEmail: newAddress() }
      expectField(await call('/auth/email/change', { token, json }), '/mailCode')
      expectField(
        await call('/auth/email/change', { token, json: { ...json, mailCode: '00000000' } }),
        '/mailCode',
      )
    }
    expect(mailbox.mails.filter(({ recipients }) => recipients[0]?.startsWith('moved'))).toEqual([])
    const { body } = await call('/auth/second-factors', { method: 'GET', token: await tokenOf(person) })
    expect(body).toMatchObject({ secondFactors: [], mailCodeRequired: true })
  })

  test('gets codes mailed to its owner alone, each of which serves what it was asked for (ASVS 6.6.2)', async () => {
    const person = await service.addUser(admin)
    const token = await tokenOf(person)
    const ask = (json: object) => call('/auth/second-factors/mail-code', { token, json })
    expect((await ask({ for: 'email' })).status).toBe(202)
    const forEmail = await mailbox.mailTo(person.email, 'Your code for')
    expect(forEmail.email.text).toContain('another email address')
    const [, one, two] = /this code: (\d{4}) (\d{4})/.exec(forEmail.email.text ?? '') ?? []
    const mailCode = `${one}${two}`
    expectField(await call('/auth/second-factors/totp', { token, json: { mailCode } }), '/mailCode')
    const json = { newEmail: newAddress(), mailCode }
    expect((await call('/auth/email/change', { token, json })).status).toBe(202)
    // Once.
    expectField(await call('/auth/email/change', { token, json }), '/mailCode')
    expect((await ask({})).status).toBe(202)
    const forFactor = await mailbox.mailTo(person.email, 'Your code for')
    const [, three, four] = /this code: (\d{4}) (\d{4})/.exec(forFactor.email.text ?? '') ?? []
    expectField(
      await call('/auth/email/change', {
        token,
        json: { newEmail: newAddress(), mailCode: `${three}${four}` },
      }),
      '/mailCode',
    )
    for (const wrong of [{ for: 'both' }, { for: null }, { for: 'email', to: 'x@y.example' }])
      expectProblem(await ask(wrong), [400, 'invalid_request'])
  })
})

describe('the mail that tells of a first factor', () => {
  test('has a link that takes it back: no factor, password or session is left, and a link to choose a password comes', async () => {
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
    const owner = await chooseAnother(person)
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

  test('is the only one: a later factor is proven by the one before, so no mailbox takes it back', async () => {
    const person = await service.personWithTotp(admin)
    await mailbox.mailTo(person.email, 'A second factor was added')
    await service.addPasskey({ token: person.token })
    const later = await mailbox.mailTo(person.email, 'A second factor was added')
    expect(later.token).toBe('')
  })

  test('has a link also for who is disabled meanwhile, which opens nothing', async () => {
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

describe('the mail that tells the former address of a change that no factor proved', () => {
  test('has a link that puts it back, and tells the other one', async () => {
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
    expect((await service.login(await chooseAnother(person))).status).toBe(200)
    await expectDead(told.token)
  })

  test('has none if a second factor proved it, whatever became of that', async () => {
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

  test('wins over all that came after it: factors, further addresses, a pending one, links, later undos', async () => {
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
      await expectDead(later)
    }
    expectField(await call('/auth/email/confirm', { json: { token: confirmation.token } }), '/token')
    const newPassword = 'another password of a thief'
    expectField(await call('/auth/password/reset', { json: { token: reset.token, newPassword } }), '/token')
    const acceptance = { token: invitation.token, name: 'Eve', password: 'a password of Eve' }
    expectField(await call('/auth/invitations/accept', { json: acceptance }), '/token')
    expectProblem(await service.login(thief), [401, 'invalid_credentials'])
    const owner = await chooseAnother(person)
    expect((await service.login(owner)).status).toBe(200)
  })

  test('is not made void by a later change: the older mailbox wins over the newer one', async () => {
    const person = await service.addUser(admin)
    const first = await move(person, await tokenOf(person))
    const second = await move({ email: first.newEmail }, await tokenOf({ ...person, email: first.newEmail }))
    expect((await undo(second.told.token)).body.email).toBe(first.newEmail)
    expect((await undo(first.told.token)).body.email).toBe(person.email)
    expect((await service.login(await chooseAnother(person))).status).toBe(200)
  })

  test('stays good through a reset and a change of password by the other side', async () => {
    const person = await service.addUser(admin)
    const { newEmail, told } = await move(person, await tokenOf(person))
    await must(call('/auth/password/forgot', { json: { companyId: person.companyId, email: newEmail } }))
    const thief = await chooseAnother({ ...person, email: newEmail })
    const json = { currentPassword: thief.password, newPassword: 'once more another one' }
    await must(call('/auth/password/change', { token: await tokenOf(thief), json }))
    expect((await undo(told.token)).status).toBe(200)
    expectProblem(await service.login({ ...thief, password: json.newPassword }), [401, 'invalid_credentials'])
  })

  test('comes with the end of what the former mailbox has proven: a code, and an app that is not in force', async () => {
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

  test('keeps invitations that were sent before the change', async () => {
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
  test('works for 72 hours, once of many times at once on two instances (ASVS 2.3.4, 6.5.1, 15.4.2)', async () => {
    const [early, late] = [await service.addUser(admin), await service.addUser(admin)]
    const linkOf = async (person: Person) => (await move(person, await tokenOf(person))).told.token
    const links = [await linkOf(early), await linkOf(late)]
    service.clock.advance(72 * 3600 - 60)
    const answers = await Promise.all(times(8, (n) => undo(links[0] ?? '', n % 2)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...times(7, () => 400)])
    service.clock.advance(120)
    await expectDead(links[1] ?? '')
  })

  test('to an address that another member has by now does nothing, and says so', async () => {
    const person = await service.addUser(admin)
    const { newEmail, told } = await move(person, await tokenOf(person))
    await service.addUser(admin, 'viewer', { email: person.email })
    const answer = await undo(told.token)
    expectField(answer, '/token')
    expect(answer.body.errors[0].message).toContain('another member')
    expect((await service.login({ ...person, email: newEmail })).status).toBe(200)
  })

  test('is dead for a member who is deleted; nothing of the former address is left', async () => {
    const person = await service.addUser(admin)
    const { told, newEmail } = await move(person, await tokenOf(person))
    await deleteUser(service.context, person.companyId, { userId: person.userId }, now())
    await expectDead(told.token)
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

  test('of a member who is deleted leaves no address, if it was mailed while that waited', async () => {
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

  test('works in a company that is suspended, and opens nothing', async () => {
    const other = await service.addCompany()
    const person = await service.addUser(other)
    const { told } = await move(person, await tokenOf(person))
    await changeCompanyStatus(service.context, other.companyId, 'suspended')
    expect((await undo(told.token)).status).toBe(200)
    expectProblem(await service.login(person), [401, 'invalid_credentials'])
  })

  test('is consumed by no GET, and counts as a one-time token (ASVS 2.4.1, 14.2.1)', async () => {
    expect((await call('/auth/undo', { method: 'GET' })).status).toBe(405)
    expect((await call('/../undo', { method: 'GET' })).status).toBe(200)
    for (const token of ['', 'undo_', `undo_${'A'.repeat(43)}`, `reset_${'A'.repeat(43)}`])
      await expectDead(token)
    const strict = await openTestService({ env: { RATE_LIMIT_SCALE: '1' } })
    const again = () => strict.call('/auth/undo', { json: { token: `undo_${'A'.repeat(43)}` } })
    for (const _ of times(10, () => 0)) expect((await again()).status).toBe(400)
    expectProblem(await again(), [429, 'rate_limited'])
  })

  test('is not mailed again once it was used, if the mail server took it and did not say so', async () => {
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

  test('makes a later one void that is mailed while it waits for the member (ASVS 15.4.2)', async () => {
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
    await expectDead(later)
  })

  test('and a change that is confirmed at the same moment do not wait for each other', async () => {
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

  test('decides against a factor and an address that are added at the same moment (ASVS 15.4.2)', async () => {
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
