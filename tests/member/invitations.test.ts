import { expect, test } from 'vitest'
import { changeUserRole, invite as inviteAsOperator } from '../../src/operator/users.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { releaseTogether } from '../support/races.ts'
import { openTestService, type Person, times, useSharedService } from '../support/test-service.ts'

const { service, mailbox } = await useSharedService()
const { use, allSent } = useService(service, mailbox)
const admin = await service.addCompany({ name: 'Acme', adminName: 'Ada' })
const token = (await service.loginAs(admin)).accessToken
const tokenOf = async (person: Person) => (await service.loginAs(person)).accessToken

type Options = Parameters<typeof service.call>[1]

const invite = (json: object, options: Options = {}) =>
  service.call('/auth/invitations', { token, json: { role: 'analyst', ...json }, ...options })
const open = async (options: Options = {}) =>
  (await service.call('/auth/invitations', { method: 'GET', token, ...options })).body.invitations
const idsOf = (rows: { id: string }[]) => rows.map(({ id }) => id)
const withdraw = (id: string, options: Options = {}) =>
  service.call(`/auth/invitations/${id}`, { method: 'DELETE', token, ...options })
const resend = (id: string, options: Options = {}) =>
  service.call(`/auth/invitations/${id}/resend`, { token, ...options })
/** An invitation, its link's token, and its email address. */
async function send(json: object = {}, options: Options = {}) {
  const email = newEmail()
  const { body } = await invite({ email, ...json }, options)
  const mail = await mailbox.mailTo(email)
  await allSent()
  return { id: body.id as string, email, mailed: mail.token }
}
const preview = (mailed: string) => service.call('/auth/invitations/preview', { json: { token: mailed } })
const expectInvalid = async (mailed: string) => {
  for (const answer of [await preview(mailed), await use('invite', mailed)]) expectField(answer, '/token')
}

test('an accepted invitation creates a member with its role and assignments', async () => {
  const email = newEmail()
  const { status, body } = await invite({ email: email.toUpperCase(), assignments: ['environment:test'] })
  expect(status).toBe(201)
  expect(body).toEqual({
    id: expect.any(String),
    email,
    role: 'analyst',
    assignments: ['environment:test'],
    invitedBy: { id: admin.userId, email: admin.email },
    createdAt: new Date(service.clock.now()).toISOString(),
    expiresAt: null,
    mail: 'waiting',
  })
  const { token: mailed } = await mailbox.mailTo(email)
  await allSent()
  const expiresAt = new Date(service.clock.now() + 72 * 3_600_000).toISOString()
  expect(await open()).toContainEqual({ ...body, mail: 'sent', expiresAt })
  expect((await preview(mailed)).body).toEqual({ companyName: 'Acme', email, role: 'analyst', expiresAt })
  const accepted = await use('invite', mailed, { at: 1 })
  expect(accepted.status).toBe(201)
  const member = await service.call(`/auth/members/${accepted.body.userId}`, { method: 'GET', token })
  expect(member.body).toMatchObject({ email, role: 'analyst', assignments: ['environment:test'] })
  expect(idsOf(await open())).not.toContain(body.id)
  expectProblem(await invite({ email }), [409, 'already_member'])
})

test('replaced, resent, and withdrawn invitation links no longer work', async () => {
  const { id: first, email, mailed: replaced } = await send()
  service.clock.advance(1)
  const { body } = await invite({ email, role: 'viewer' })
  const { token: second } = await mailbox.mailTo(email)
  await allSent()
  const ids = idsOf(await open())
  expect([ids.includes(first), ids.includes(body.id)]).toEqual([false, true])
  expectProblem(await withdraw(first), [404, 'not_found'])
  await expectInvalid(replaced)
  service.clock.advance(1)
  expect((await resend(body.id)).status).toBe(202)
  const { token: third } = await mailbox.mailTo(email)
  await allSent()
  await expectInvalid(second)
  expect((await preview(third)).status).toBe(200)
  expect((await withdraw(body.id)).status).toBe(204)
  await expectInvalid(third)
  expect(idsOf(await open())).not.toContain(body.id)
  for (const act of [withdraw, resend]) expectProblem(await act(body.id), [404, 'not_found'])
})

test.for([
  ['demoted', { method: 'PATCH', json: { role: 'viewer' } }],
  ['disabled', { method: 'PATCH', json: { status: 'disabled' } }],
  ['deleted', { method: 'DELETE' }],
] as const)('an invitation no longer works once its sender was %s (ASVS 8.3.2)', async ([, act]) => {
  const sender = await service.addUser(admin, 'admin')
  const { id, mailed } = await send({}, { token: await tokenOf(sender) })
  const member = `/auth/members/${sender.userId}`
  expect((await service.call(member, { token, ...act })).status).toBeLessThan(300)
  await expectInvalid(mailed)
  expect(idsOf(await open())).not.toContain(id)
  if (act.method === 'DELETE') return
  await changeUserRole(service.context, admin.companyId, sender, 'admin')
  const back = { method: 'PATCH', token, json: { status: 'active' } }
  expect((await service.call(member, back)).status).toBe(200)
  await expectInvalid(mailed)
})

test('an invitation is accepted or withdrawn, never both (ASVS 15.4.2)', async () => {
  for (const _ of times(5, () => 0)) {
    const { id, mailed } = await send()
    const [accepted, withdrawn] = await Promise.all([use('invite', mailed, { at: 1 }), withdraw(id)])
    const expected = accepted.status === 201 ? [201, 404] : [204, 400]
    expect([accepted.status, withdrawn.status].sort()).toEqual(expected)
  }
})

test('invitations are listed newest first, in pages, for their company only (ASVS 8.2.2)', async () => {
  const credential = await tokenOf(await service.addCompany())
  const sent: string[] = []
  for (const _ of times(3, () => 0)) {
    service.clock.advance(1)
    sent.unshift((await invite({ email: newEmail() }, { token: credential })).body.id)
  }
  const page = async (query: string) =>
    (await service.call(`/auth/invitations?limit=2${query}`, { method: 'GET', token: credential })).body
  const first = await page('')
  const last = await page(`&cursor=${first.nextCursor}`)
  expect([...idsOf(first.invitations), ...idsOf(last.invitations)]).toEqual(sent)
  expect([first.invitations.length, last.nextCursor]).toEqual([2, null])
  const [foreign = ''] = sent
  expect(idsOf(await open())).not.toContain(foreign)
  for (const act of [withdraw, resend]) expectProblem(await act(foreign), [404, 'not_found'])
})

test('replacing and resending an invitation concurrently does not deadlock (ASVS 15.4.3)', async () => {
  const { id, email } = await send()
  const other = await tokenOf(await service.addUser(admin, 'admin'))
  const held = { table: 'invitations', companyId: admin.companyId, email } as const
  const answers = await releaseTogether(service.db, held, [
    () => invite({ email }),
    () => resend(id, { token: other, at: 1 }),
  ])
  // The invitation to resend has been replaced.
  expect(answers.map(({ status }) => status)).toEqual([201, 404])
})

const small = await openTestService({
  instances: 2,
  env: {
    MAX_INVITATIONS_IN_TRIAL: '3',
    MAX_MEMBERS_IN_TRIAL: '5',
    LIMIT_INVITATIONS: '9/3600',
    RATE_LIMIT_SCALE: '1',
  },
})
const inviteAs = (token: string, { at = 0, email = newEmail() } = {}) =>
  small.call('/auth/invitations', { token, json: { email, role: 'viewer' }, at })
/** Sends six invitations at the same time. Returns those that were accepted. */
async function crowd(token: string) {
  const answers = await Promise.all(times(6, (n) => inviteAs(token, { at: n % 2 })))
  const refused = answers.filter(({ status }) => status !== 201)
  for (const answer of refused) expectProblem(answer, [409, 'quota_reached'])
  return answers.filter(({ status }) => status === 201).map(({ body }) => body)
}

test('a company has limits of open invitations and invitations per hour (ASVS 2.3.2, 2.4.1)', async () => {
  const { accessToken: token } = await small.loginAs(await small.addCompany())
  const open = await crowd(token)
  expect(open).toHaveLength(3)
  // An open invitation can be replaced at the limit.
  expect((await inviteAs(token, { email: open[0].email })).status).toBe(201)
  for (const at of [0, 1]) expectProblem(await inviteAs(token, { at }), [409, 'quota_reached'])
  expectProblem(await inviteAs(token), [429, 'rate_limited'])
})

test('open invitations count as members until they expire', async () => {
  const company = await small.addCompany()
  for (const _ of times(2, () => 0)) await small.addUser(company)
  const { accessToken: token } = await small.loginAs(company)
  const open = await crowd(token)
  expect(open).toHaveLength(2)
  const json = { name: 'Worker', role: 'viewer' }
  expectProblem(await small.call('/auth/members', { token, json }), [409, 'quota_reached'])
  const invited = { email: newEmail(), role: 'viewer' }
  const byOperator = inviteAsOperator(small.context, company.companyId, invited)
  await expect(byOperator).rejects.toMatchObject({ code: 'quota_reached' })
  // An open invitation can still be replaced.
  expect((await inviteAs(token, { email: open[0].email })).status).toBe(201)

  const { companyId } = company
  const unsent = small.db.selectFrom('mail_outbox').select('mail_id').where('company_id', '=', companyId)
  await expect.poll(() => unsent.where('sent_at', 'is', null).execute()).toEqual([])
  small.clock.advance(73 * 3600)
  const { accessToken: later } = await small.loginAs(company)
  // The invitations have expired, so there is room for new ones.
  expect((await inviteAs(later)).status).toBe(201)
  const invitations = small.db.selectFrom('invitations').where('company_id', '=', companyId)
  const ids = (await invitations.select('invitation_id').execute()).map((row) => row.invitation_id).sort()
  const resend = (id: string) => small.call(`/auth/invitations/${id}/resend`, { token: later })
  const resending = ids.slice(0, 2).map(resend)
  const resent = await Promise.all(resending)
  expect(resent.map(({ status }) => status).sort()).toEqual([202, 409])
})

test('a person cannot have the email of a service account', async () => {
  const email = 'Worker-4821@Service.invalid'
  expectField(await invite({ email }), '/email')
  const change = { token, json: { newEmail: email } }
  expectField(await service.call('/auth/email/change', change), '/newEmail')
})
