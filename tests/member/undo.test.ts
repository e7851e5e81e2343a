import { expect, test } from 'vitest'
import { queueMail } from '../../src/mail/service.ts'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { changeUserStatus, deleteUser } from '../../src/operator/users.ts'
import { listAudit } from '../support/audit.ts'
import { createAuthenticator } from '../support/authenticator.ts'
import { codeIn, mailedCodeOf } from '../support/mail-code.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { releaseTogether } from '../support/races.ts'
import { expectWrong, must, useFactorService } from '../support/second-factors.ts'
import { countWaiting, NEW_PASSWORD, PASSWORD, type Person, times } from '../support/test-service.ts'

/**
 * A stolen password is not enough to keep an account. Adding a factor or changing the email requires the mailbox,
 * whose owner can undo what no second factor has confirmed (ASVS 6.3.7, 6.4.3, 7.5.1).
 */

const service = await useFactorService()
const { call, mailbox } = service
const { allSent, tokenOf: mailedTokenOf, use } = useService(service, mailbox)
const admin = await service.addCompany()
const WITHOUT_FACTOR = 'The email address of your account'
const now = () => service.clock.now()

const tokenOf = async (person: Omit<Person, 'userId'>) =>
  (await service.loginAs(person)).accessToken as string
const undo = (token: string, at = 0) => call('/auth/undo', { json: { token }, at })
const expectInvalid = async (token: string) => expectField(await undo(token), '/token')

/** Requests a new email, with the code from the old mailbox. Returns the link that confirms it. */
async function requestMove(token: string) {
  const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
  const email = newEmail()
  await must(call('/auth/email/change', { token, json: { newEmail: email, mailCode } }))
  return { email, link: (await mailbox.mailTo(email, 'Confirm your new')).token }
}
const confirmMove = (link: string, at = 0) => call('/auth/email/confirm', { json: { token: link }, at })

/** Changes the account's email. Returns the emails about it. */
async function move(person: { email: string }, token: string) {
  const { email, link } = await requestMove(token)
  await must(confirmMove(link))
  const told = await mailbox.mailTo(person.email, WITHOUT_FACTOR)
  return { movedTo: email, told, toldThere: await mailbox.mailTo(email, WITHOUT_FACTOR) }
}

async function addMoved() {
  const { token, ...person } = await service.signedIn(admin)
  const moved = await move(person, token)
  // Otherwise an email could wait for the member's row, in races that count what waits.
  await allSent()
  return { person, token, ...moved }
}

const userOf = ({ userId }: Person) =>
  service.db.selectFrom('users').selectAll().where('user_id', '=', userId).executeTakeFirst()

async function resetPassword(person: Person) {
  const { token } = await mailbox.mailTo(person.email, 'Reset your password')
  await must(use('reset', token))
  return { ...person, password: NEW_PASSWORD }
}

test('a first factor and a new email require emailed codes (ASVS 6.6.2)', async () => {
  const { token, ...person } = await service.signedIn(admin)
  const { passkeyOptions } = await must(call('/auth/second-factors/passkeys/options', { token }))
  const response = createAuthenticator().create(passkeyOptions)
  const addTotp = (json: object) => call('/auth/second-factors/totp', { token, json })
  const addPasskey = (json: object) =>
    call('/auth/second-factors/passkeys', { token, json: { response, name: 'Mine', ...json } })
  const changeEmail = (json: object) =>
    call('/auth/email/change', { token, json: { newEmail: newEmail(), ...json } })
  for (const act of [addTotp, addPasskey, changeEmail])
    for (const json of [{}, { mailCode: '00000000' }]) expectField(await act(json), '/mailCode')
  expect(await userOf(person)).toMatchObject({ second_factors: [], pending_email: null })

  const requestCode = async (json: object) => {
    await must(call('/auth/second-factors/mail-code', { token, json }))
    return { mailCode: codeIn(await mailbox.mailTo(person.email, 'Your code for')) }
  }
  const forEmail = await requestCode({ for: 'email' })
  expectField(await addTotp(forEmail), '/mailCode')
  expect((await changeEmail(forEmail)).status).toBe(202)
  expectField(await changeEmail(forEmail), '/mailCode')
  expectField(await changeEmail(await requestCode({})), '/mailCode')
})

test('undoing a first factor removes all factors, password, and sessions', async () => {
  const person = await service.personWithTotp(admin)
  const { token, email } = await mailbox.mailTo(person.email, 'A second factor was added')
  expect(token).toMatch(/^undo_[A-Za-z0-9_-]{43}$/)
  expect(email.text).toContain(`#token=${token}&company=`)
  await service.addPasskey({ token: person.token })
  expect((await mailbox.mailTo(person.email, 'A second factor was added')).token).toBe('')
  const { challenge } = await service.begin(person)
  const { companyId } = person
  const additions = { members: [], serviceAccounts: [], signingSecret: null }
  expect(await must(undo(token))).toMatchObject({ companyId, email: person.email, additions })
  await service.expectEnded(person, 'password_reset')
  expectProblem(await service.login(person), [401, 'invalid_credentials'])
  expectWrong(await service.complete({ challenge, ...service.totpOf(person) }))
  const { accessToken } = await service.loginAs(await resetPassword(person))
  const left = await must(call('/auth/second-factors', { method: 'GET', token: accessToken }))
  expect(left).toMatchObject({ secondFactors: [], recoveryCodes: 0 })
  const done = { actor: person.userId, outcome: 'done' }
  expect(await listAudit(service.db, 'undo', person)).toMatchObject([done])
})

test('a disabled user of a suspended company can undo, but stays disabled', async () => {
  const person = await service.personWithTotp(await service.addCompany())
  const { token } = await mailbox.mailTo(person.email, 'A second factor was added')
  await changeUserStatus(service.context, person.companyId, person, 'disabled')
  await changeCompanyStatus(service.context, person.companyId, 'suspended')
  expect((await undo(token)).status).toBe(200)
  expectProblem(await service.login(person), [401, 'invalid_credentials'])
  expect(await userOf(person)).toMatchObject({ status: 'disabled', second_factors: [] })
})

test('a new email that a factor confirmed cannot be undone', async () => {
  const person = await service.personWithTotp(admin)
  const wanted = newEmail()
  await must(call('/auth/email/change', { token: person.token, json: { newEmail: wanted } }))
  const { token } = await mailbox.mailTo(wanted, 'Confirm your new')
  await must(service.removeFactor(person.id, person.token))
  await must(confirmMove(token))
  expect((await mailbox.mailTo(person.email, WITHOUT_FACTOR)).token).toBe('')
  const json = { newEmail: newEmail(), mailCode: '12345678' }
  expectField(await call('/auth/email/change', { token: person.token, json }), '/mailCode')
})

test('an undo reverts all later factors, addresses, links, undos, and invitations', async () => {
  const { token, ...person } = await service.signedIn(admin, 'admin')
  const invite = async (role: string) => {
    const email = newEmail()
    await must(call('/auth/invitations', { token, json: { email, role } }))
    return email
  }
  const earlier = await invite('viewer')
  service.clock.advance(120)
  const first = await move(person, token)
  const second = await move({ email: first.movedTo }, token)
  const thief = { ...person, email: second.movedTo }
  await service.addTotp({ token })
  const added = await mailbox.mailTo(thief.email, 'A second factor was added')
  const pending = newEmail()
  await must(call('/auth/email/change', { token, json: { newEmail: pending } }))
  const confirmation = await mailbox.mailTo(pending, 'Confirm your new')
  const reset = await mailedTokenOf('reset', thief, thief.email)
  const later = await invite('admin')
  const invitation = await mailbox.mailTo(later, 'Your invitation')

  expect((await undo(first.told.token)).body.email).toBe(person.email)
  for (const link of [second.told.token, added.token]) {
    expect(link).toMatch(/^undo_/)
    await expectInvalid(link)
  }
  expectField(await confirmMove(confirmation.token), '/token')
  expectField(await use('reset', reset), '/token')
  expectField(await use('invite', invitation.token), '/token')
  const listing = { method: 'GET', token: await tokenOf(admin) }
  const { invitations } = await must(call('/auth/invitations', listing))
  const emails = invitations.map(({ email }: { email: string }) => email)
  expect([emails.includes(earlier), emails.includes(later)]).toEqual([true, false])
  expectProblem(await service.login(thief), [401, 'invalid_credentials'])
  expect((await service.login(await resetPassword(person))).status).toBe(200)
})

test('undoing a new email restores the old one, even after resets', async () => {
  const { person, ...first } = await addMoved()
  expect(first.told.token).toMatch(/^undo_[A-Za-z0-9_-]{43}$/)
  expect(first.toldThere.token).toBe('')
  const { companyId, email } = person
  await must(call('/auth/password/forgot', { json: { companyId, email: first.movedTo } }))
  const thief = await resetPassword({ ...person, email: first.movedTo })
  const json = { currentPassword: thief.password, newPassword: PASSWORD }
  await must(call('/auth/password/change', { token: await tokenOf(thief), json }))
  const session = await service.loginAs({ ...thief, password: PASSWORD })
  const second = await move(thief, session.accessToken)
  expect(await must(undo(second.told.token, 1))).toMatchObject({ companyId, email: first.movedTo })
  expect((await service.refresh(session.refreshToken)).body.code).toBe('session_ended')
  expect((await must(undo(first.told.token))).email).toBe(email)
  expect((await mailbox.mailTo(first.movedTo, 'was removed from an account')).token).toBe('')
  for (const one of [email, first.movedTo, second.movedTo])
    expectProblem(await service.login({ ...person, email: one }), [401, 'invalid_credentials'])
  expect((await service.login(await resetPassword(person))).status).toBe(200)
  await expectInvalid(first.told.token)
})

test('a new email invalidates codes of the old mailbox and unconfirmed apps', async () => {
  const { token } = await service.signedIn(admin)
  const { link } = await requestMove(token)
  const app = await service.beginTotp({ token })
  const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
  await must(confirmMove(link))
  const json = { mailCode, newEmail: newEmail() }
  expectField(await call('/auth/email/change', { token, json }), '/mailCode')
  expectProblem(await service.confirmTotp({ token }, app), [404, 'not_found'])
})

test('an undo link works once, for 72 hours (ASVS 2.3.4, 6.5.1, 14.2.1, 15.4.2)', async () => {
  const [early, late] = [(await addMoved()).told.token, (await addMoved()).told.token]
  for (const wrong of ['', `undo_${'A'.repeat(43)}`, early.replace('undo', 'reset')])
    await expectInvalid(wrong)
  expect((await call(`/auth/undo?token=${early}`, { method: 'GET' })).status).toBe(405)
  service.clock.advance(72 * 3600 - 60)
  const answers = await Promise.all(times(8, (n) => undo(early, n % 2)))
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...times(7, () => 400)])
  service.clock.advance(120)
  await expectInvalid(late)
})

test('an undo fails with a reason while another member uses the address', async () => {
  const { person, movedTo, told } = await addMoved()
  const heir = await service.addUser(admin, 'viewer', { email: person.email })
  const answer = await undo(told.token)
  expectField(answer, '/token')
  expect(answer.body.errors[0].message).toContain('another member')
  expect((await service.login({ ...person, email: movedTo })).status).toBe(200)
  await deleteUser(service.context, heir.companyId, heir)
  expect((await must(undo(told.token))).email).toBe(person.email)
})

test('deleting a member deletes undo links, even one that is being emailed', async () => {
  const { person, told, movedTo } = await addMoved()
  const { companyId, userId } = person
  const deletion = () => deleteUser(service.context, companyId, { userId })
  await releaseTogether(service.db, { table: 'users', ...person }, [deletion], async () => {
    // Simulates a first factor whose change locked the member earlier.
    const mail = { kind: 'first_factor_added', recipient: movedTo, data: { userId } } as const
    await queueMail(service.db, service.clock, companyId, { ...mail, now: now() })
    await mailbox.mailTo(movedTo, 'A second factor was added')
  })
  await expectInvalid(told.token)
  const addresses = [person.email, movedTo]
  const mails = service.db.selectFrom('mail_outbox').select('kind').where('recipient', 'in', addresses)
  const tokens = service.db.selectFrom('one_time_tokens').select('email').where('email', 'in', addresses)
  expect([await mails.execute(), await tokens.execute()]).toEqual([[], []])
})

test('a used undo link is not emailed again', async () => {
  const person = await service.personWithTotp(admin)
  const { token } = await mailbox.mailTo(person.email, 'A second factor was added')
  await allSent()
  // Simulates a connection that broke before the mail server confirmed the email.
  const unconfirmed = { sent_at: null, next_attempt_at: new Date(now() + 3_600_000) }
  const sent = service.db.updateTable('mail_outbox').set(unconfirmed).where('recipient', '=', person.email)
  await sent.where('kind', '=', 'first_factor_added').execute()
  const waiting = service.db.selectFrom('mail_outbox').select('kind').where('sent_at', 'is', null)
  const ofPerson = waiting.where('recipient', '=', person.email)
  expect(await ofPerson.execute()).toEqual([{ kind: 'first_factor_added' }])
  await must(undo(token))
  expect(await ofPerson.where('kind', '=', 'first_factor_added').execute()).toEqual([])
})

test('an undo invalidates a later link emailed while the undo waits (ASVS 15.4.2)', async () => {
  const { person, movedTo, told } = await addMoved()
  const { companyId, userId } = person
  let later = ''
  const held = { table: 'users', ...person } as const
  const [undone] = await releaseTogether(service.db, held, [() => undo(told.token)], async () => {
    // Simulates a change that locked the member earlier.
    const mail = { kind: 'email_changed_without_factor', recipient: movedTo, data: { userId } } as const
    await queueMail(service.db, service.clock, companyId, { ...mail, now: now() })
    later = (await mailbox.mailTo(movedTo, WITHOUT_FACTOR)).token
  })
  expect(undone?.status).toBe(200)
  expect(later).toMatch(/^undo_/)
  await expectInvalid(later)
})

test('an undo does not deadlock with the confirmation of a new email', async () => {
  const { person, token, movedTo: email, told } = await addMoved()
  const { link } = await requestMove(token)
  await mailedTokenOf('reset', person, email)
  const answers = await service.db.transaction().execute(async (tx) => {
    await tx.selectFrom('one_time_tokens').select('email').where('email', '=', email).forUpdate().execute()
    const confirming = confirmMove(link)
    await expect.poll(() => countWaiting(service.db)).toBe(1)
    // The email is not sent yet.
    const mail = { kind: 'password_reset', recipient: email, data: {}, now: now() + 3_600_000 } as const
    await queueMail(service.db, service.clock, person.companyId, mail)
    const undoing = undo(told.token, 1)
    await expect.poll(() => countWaiting(service.db)).toBe(2)
    return [confirming, undoing]
  })
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([204, 200])
})

test('an undo wins over a concurrently added factor or email (ASVS 15.4.2)', async () => {
  const { person, token, told } = await addMoved()
  const app = await service.beginTotp({ token })
  const { link } = await requestMove(token)
  const [undone, ...others] = await releaseTogether(service.db, { table: 'users', ...person }, [
    () => undo(told.token),
    () => service.confirmTotp({ token }, app, 1),
    () => confirmMove(link, 1),
  ])
  expect(undone?.status).toBe(200)
  for (const { status } of others) expect(status).toBeLessThan(500)
  const left = { email: person.email, pending_email: null, second_factors: [], password_hash: '' }
  expect(await userOf(person)).toMatchObject(left)
  const tokens = service.db.selectFrom('one_time_tokens').select('purpose')
  expect(await tokens.where('user_id', '=', person.userId).execute()).toEqual([])
  expect((await service.login({ ...person, password: PASSWORD })).status).toBe(401)
})
