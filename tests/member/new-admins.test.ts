import { expect, test } from 'vitest'
import { changeUserRole, createUser } from '../../src/operator/users.ts'
import { codeIn, mailedCodeOf } from '../support/mail-code.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { must, useFactorService } from '../support/second-factors.ts'
import { PASSWORD, type Person, times } from '../support/test-service.ts'

/** Making an admin takes a factor or the mailbox, and alerts all admins, so a stolen password cannot keep a company. */

const service = await useFactorService()
const { call, mailbox } = service
const { use } = useService(service, mailbox)
const tokenOf = async (person: Person): Promise<string> => (await service.loginAs(person)).accessToken

async function openCompany() {
  const admin = await service.addCompany({ name: 'Acme', adminName: 'Ada' })
  return { admin, token: await tokenOf(admin) }
}
const invite = (token: string, json: object, at = 0) =>
  call('/auth/invitations', { token, at, json: { email: newEmail(), role: 'admin', ...json } })
const promote = (token: string, { userId }: Person, json: object = {}, at = 0) =>
  call(`/auth/members/${userId}`, { method: 'PATCH', token, at, json: { role: 'admin', ...json } })
const codeOf = (token: string) => mailedCodeOf(service, { token }, 'admin_code')

test('an admin without a factor makes admins only with an emailed code (ASVS 6.6.2)', async () => {
  const { admin, token } = await openCompany()
  const member = await service.addUser(admin)
  for (const json of [{}, { mailCode: '00000000' }]) {
    expectField(await invite(token, json), '/mailCode')
    expectField(await promote(token, member, json), '/mailCode')
  }
  const forEmail = await mailedCodeOf(service, { token }, 'email_change_code')
  expectField(await promote(token, member, { mailCode: forEmail }), '/mailCode')

  await must(call('/auth/second-factors/mail-code', { token, json: { for: 'admin' } }))
  const mail = await mailbox.mailTo(admin.email, 'Your code for')
  expect(mail.email.text).toContain('request to make someone an admin of Acme')
  const json = { mailCode: codeIn(mail) }
  expect((await promote(token, member, json)).body).toMatchObject({ role: 'admin' })
  // A code works once.
  expectField(await invite(token, json), '/mailCode')
  expect((await invite(token, { mailCode: await codeOf(token) })).status).toBe(201)
})

test('one emailed code makes one admin, even concurrently on two instances (ASVS 2.3.4)', async () => {
  const { token } = await openCompany()
  const mailCode = await codeOf(token)
  const answers = await Promise.all(times(6, (n) => invite(token, { mailCode }, n % 2)))
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 400, 400, 400, 400, 400])
})

test('an emailed code is refused for other roles or no change', async () => {
  const { admin, token } = await openCompany()
  const [member, second] = [await service.addUser(admin), await service.addUser(admin, 'admin')]
  await must(invite(token, { role: 'viewer' }))
  await must(promote(token, second))
  await must(promote(token, member, { role: 'developer' }))
  const mailCode = await codeOf(token)
  expectField(await invite(token, { role: 'viewer', mailCode }), '/mailCode')
  expectField(await promote(token, second, { mailCode }), '/mailCode')
})

test('an admin with a second factor gets and needs no code', async () => {
  const { admin } = await openCompany()
  const { token } = await service.personWithTotp(admin, 'admin')
  expect((await invite(token, {})).status).toBe(201)
  expectField(await invite(token, { mailCode: '00000000' }), '/mailCode')
  const asked = await call('/auth/second-factors/mail-code', { token, json: { for: 'admin' } })
  expectProblem(asked, [403, 'permission_denied'])
})

test('all admins get an email about a new admin, naming the inviter', async () => {
  const { admin, token } = await openCompany()
  const [one, two] = [await service.addUser(admin), await service.addUser(admin)]
  const plain = (text = '') => text.replaceAll('\u200a', '')
  const toldTo = async (recipient: string, subject = 'is now an admin of Acme') =>
    plain((await mailbox.mailTo(recipient, subject)).email.text)
  await must(promote(token, one, { mailCode: await codeOf(token) }))
  for (const recipient of [admin.email, one.email]) {
    const text = await toldTo(recipient)
    expect(text).toContain(one.email)
    expect(text).toContain('got the role from Ada')
  }
  const email = newEmail()
  await must(invite(token, { email, mailCode: await codeOf(token) }))
  await must(use('invite', (await mailbox.mailTo(email)).token))
  for (const recipient of [admin.email, one.email, email])
    expect(await toldTo(recipient, 'Bob is now')).toContain('accepted an invitation from Ada')
  await changeUserRole(service.context, admin.companyId, two, 'admin')
  expect(await toldTo(admin.email)).toContain('from an operator')
  const eve = { email: newEmail(), name: 'Eve', role: 'admin', password: PASSWORD }
  await createUser(service.context, admin.companyId, eve)
  await toldTo(admin.email, 'Eve is now an admin of Acme')
})
