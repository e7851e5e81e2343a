import { expect, test } from 'vitest'
import { expectField } from '../http/problem.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { PASSWORD, useSharedService } from '../support/test-service.ts'

/** Passwords of service accounts begin with gsp_, by which a sign-in recognizes them. */

const { service, mailbox } = await useSharedService()
const { tokenOf, use } = useService(service, mailbox)
const FORM = 'gsp_ and a few words more'

test('users cannot choose a password that begins with gsp_', async () => {
  const admin = await service.addCompany()
  const { accessToken: token } = await service.loginAs(admin)
  const register = { companyName: 'Acme', name: 'Ada', email: newEmail() }
  const change = (newPassword: string) => ({ token, json: { currentPassword: PASSWORD, newPassword } })
  const refusals = [
    [service.call('/auth/register', { json: { ...register, password: FORM } }), '/password'],
    [service.call('/auth/password/change', change(FORM)), '/newPassword'],
    [use('reset', await tokenOf('reset', admin, admin.email), { password: FORM }), '/newPassword'],
    [use('invite', await tokenOf('invite', admin), { password: FORM }), '/password'],
  ] as const
  for (const [answering, path] of refusals) {
    const answer = await answering
    expectField(answer, path)
    expect(answer.body.errors[0].message).toContain('gsp_')
  }
  const { status } = await service.call('/auth/password/change', change('Gsp_ and a few words more'))
  expect(status).toBe(204)
})

test('an existing password that begins with gsp_ still works', async () => {
  const person = await service.addCompany()
  const user = service.db.updateTable('users').where('user_id', '=', person.userId)
  await user.set({ password_hash: await service.context.hasher.hash(FORM) }).execute()
  const { accessToken: token } = await service.loginAs({ ...person, password: FORM })
  const json = { currentPassword: FORM, newPassword: `${FORM} again` }
  expectField(await service.call('/auth/password/change', { token, json }), '/newPassword')
})
