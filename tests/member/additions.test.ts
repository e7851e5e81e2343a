import { expect, test } from 'vitest'
import { newEmail, useService } from '../support/onboarding.ts'
import { must, useFactorService } from '../support/second-factors.ts'
import { NEW_PASSWORD, type Person } from '../support/test-service.ts'

/** An undo or a reset does not remove what the account added to its company, so its owner gets a list. */

const service = await useFactorService()
const { call, mailbox } = service
const { use } = useService(service, mailbox)
const tokenOf = async (person: Person): Promise<string> => (await service.loginAs(person)).accessToken
const plain = (text: string | undefined) => (text ?? '').replaceAll('\u200a', '')

async function join(token: string) {
  const email = newEmail()
  await must(call('/auth/invitations', { token, json: { email, role: 'viewer' } }))
  const { token: link } = await mailbox.mailTo(email, 'Your invitation')
  const { userId: id } = await must(use('invite', link))
  return { id, email, name: 'Bob', role: 'viewer' }
}
async function addServiceAccount(token: string, name: string) {
  const { id, email } = await must(call('/auth/members', { token, json: { name, role: 'analyst' } }))
  return { id, email, name, role: 'analyst' }
}

test('an undo lists members, service accounts, and the secret added since', async () => {
  const admin = await service.addCompany({ name: 'Acme' })
  const before = await tokenOf(admin)
  const [old, oldServer, server] = [
    await join(before),
    await addServiceAccount(before, 'old worker'),
    await addServiceAccount(before, 'worker'),
  ]
  service.clock.advance(3600)
  const token = await tokenOf(admin)
  await service.addTotp({ token })
  const { token: link } = await mailbox.mailTo(admin.email, 'A second factor was added')

  const joined = await join(token)
  const gone = await join(token)
  await must(call(`/auth/members/${gone.id}`, { method: 'DELETE', token }))
  const newServer = await addServiceAccount(token, 'new worker')
  await must(call(`/auth/members/${server.id}/password`, { token, json: {} }))
  const secret = await must(call('/auth/webhook-secret/regenerate', { token }))

  const { body } = await call('/auth/undo', { json: { token: link } })
  expect(body.additions).toEqual({
    members: [joined],
    serviceAccounts: [server, newServer],
    signingSecret: { version: secret.version, createdAt: secret.createdAt },
  })
  const { email } = await mailbox.mailTo(admin.email, 'Reset your password')
  for (const one of [joined, server, newServer]) expect(plain(email.text)).toContain(one.email)
  for (const one of [old, oldServer, gone]) expect(plain(email.text)).not.toContain(one.email)
  expect(email.text).toContain('New signing secret: version 1')
})

test('the email about a reset lists members invited within 7 days', async () => {
  const admin = await service.addCompany()
  const early = await join(await tokenOf(admin))
  service.clock.advance(6 * 86_400)
  const late = await join(await tokenOf(admin))
  service.clock.advance(86_401)
  await must(call('/auth/password/forgot', { json: { companyId: admin.companyId, email: admin.email } }))
  const { token } = await mailbox.mailTo(admin.email, 'Reset your password')
  await must(call('/auth/password/reset', { json: { token, newPassword: NEW_PASSWORD } }))
  const { email } = await mailbox.mailTo(admin.email, 'was changed')
  expect(plain(email.text)).toContain(late.email)
  expect(plain(email.text)).not.toContain(early.email)
})
