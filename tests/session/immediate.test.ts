import { expect, test } from 'vitest'
import {
  changeCompanyStatus,
  changeSubscription,
  endSessionsOfCompany,
} from '../../src/operator/companies.ts'
import { changeUserStatus, endSessionsOfUser } from '../../src/operator/users.ts'
import { decode, partsOf } from '../support/forge.ts'
import { addClient, introspect } from '../support/platform.ts'
import type { Credential } from '../support/second-factors.ts'
import { type Person, useSharedService } from '../support/test-service.ts'
import { ended } from './state.ts'

/** An operator's change takes effect on the next request, on every instance, for every credential. */

const { service } = await useSharedService()
const { context } = service
const INSTANCES = [1, 0]
const client = await addClient(service)
/** The response to other platform services. */
const activity = async ({ token, cookie, at }: Credential & { at: number }) =>
  (await introspect(service, client, token ?? cookie ?? '', at)).body

const everywhere = (credentials: Credential[]) =>
  INSTANCES.flatMap((at) => credentials.map((credential) => ({ ...credential, at })))

/** Uses each kind of credential on both instances, so that any cache is filled. */
async function signInEverywhere(person: Person) {
  const tokens = await service.loginAs(person)
  const cookie = await service.cookieOf(person, { at: 1 })
  const { body: refreshed } = await service.refresh((await service.loginAs(person)).refreshToken)
  const credentials = [{ token: tokens.accessToken }, { token: refreshed.accessToken }, { cookie }]
  for (const use of everywhere(credentials)) {
    expect((await service.getSession(use)).status).toBe(200)
    expect((await activity(use)).active).toBe(true)
  }
  return { credentials, refreshTokens: [tokens.refreshToken, refreshed.refreshToken] }
}

type Credentials = Awaited<ReturnType<typeof signInEverywhere>>

async function expectEnded({ credentials, refreshTokens }: Credentials, reason: string) {
  for (const use of everywhere(credentials)) {
    expect(await service.getSession(use)).toMatchObject(ended(reason))
    const headers = { 'x-original-method': 'GET' }
    expect(await service.ask('/verify', { method: 'GET', headers, ...use })).toMatchObject(ended(reason))
    expect(await activity(use)).toEqual({ active: false })
  }
  for (const at of INSTANCES)
    for (const token of refreshTokens)
      expect(await service.refresh(token, { at })).toMatchObject(ended(reason))
}

async function expectAlive({ credentials, refreshTokens }: Credentials) {
  for (const use of everywhere(credentials)) expect((await service.getSession(use)).status).toBe(200)
  for (const token of refreshTokens) expect((await service.refresh(token, { at: 1 })).status).toBe(200)
}

type Act = (person: Person) => Promise<unknown>
const disable: Act = (person) => changeUserStatus(context, person.companyId, person, 'disabled')
const enable: Act = (person) => changeUserStatus(context, person.companyId, person, 'active')
const suspend: Act = ({ companyId }) => changeCompanyStatus(context, companyId, 'suspended')
const resume: Act = ({ companyId }) => changeCompanyStatus(context, companyId, 'active')
const endUser: Act = (of) => endSessionsOfUser(context, of.companyId, of.userId)
const endCompany: Act = (of) => endSessionsOfCompany(context, of.companyId)

/** `undo` lets the person sign in again if the act prevents that. */
test.for<[act: string, reason: string, wholeCompany: boolean, end: Act, undo?: Act]>([
  ['disabling a user (ASVS 7.4.2)', 'user_disabled', false, disable, enable],
  ['suspending a company (ASVS 7.4.2)', 'company_suspended', true, suspend, resume],
  ["ending a user's sessions (ASVS 7.4.5)", 'ended_by_operator', false, endUser],
  ["ending a company's sessions (ASVS 7.4.5)", 'ended_by_operator', true, endCompany],
])('%s ends sessions on every instance immediately', async ([, reason, wholeCompany, end, undo]) => {
  const person = await service.addCompany()
  const sessions = await signInEverywhere(person)
  const colleague = await signInEverywhere(await service.addUser(person, 'admin'))
  const stranger = await signInEverywhere(await service.addCompany())

  await end(person)
  await expectEnded(sessions, reason)
  if (wholeCompany) await expectEnded(colleague, reason)
  else await expectAlive(colleague)
  await expectAlive(stranger)
  if (undo) {
    expect((await service.login(person, { at: 1 })).body.code).toBe('invalid_credentials')
    await undo(person)
    await expectEnded(sessions, reason)
  }
  await expectAlive(await signInEverywhere(person))
})

test('a new role takes effect everywhere on the next request (ASVS 7.2.1, 8.1.1, 8.3.2)', async () => {
  const company = await service.addCompany()
  const person = await service.addUser(company, 'admin')
  const { credentials, refreshTokens } = await signInEverywhere(person)
  const changeRole = (role: string) =>
    service.db.updateTable('users').set({ role }).where('user_id', '=', person.userId).execute()
  for (const [role, status] of [
    ['viewer', 403],
    ['admin', 200],
    ['developer', 403],
  ] as const) {
    await changeRole(role)
    for (const use of everywhere(credentials)) {
      const { body } = await service.getSession(use)
      expect([body.user.role, body.accessContext.role]).toEqual([role, role])
      expect(body.permissions.includes('webhook-secret:manage')).toBe(role === 'admin')
      const answer = await service.call('/auth/webhook-secret/status', use)
      expect([role, answer.status]).toEqual([role, status])
    }
  }
  const [token] = refreshTokens
  const { body } = await service.refresh(token ?? '', { at: 1 })
  expect(body.user.role).toBe('developer')
  expect(body.permissions).toEqual(['risk:read', 'risk:assess', 'analytics:read', 'events:inspect'])
  const claims = decode(partsOf(body.accessToken)[1])
  expect([claims['role'], claims['perms']]).toEqual(['developer', body.permissions])
})

test('ingestion stops on every instance once a company may not send (ASVS 7.4.2, 8.3.2)', async () => {
  const person = await service.addCompany()
  const { companyId } = person
  const { credentials } = await signInEverywhere(person)
  const secret = await service.newSecret(person)
  async function expectSending(expected: object) {
    for (const at of INSTANCES) {
      const event = { type: 'payment.created', data: {} }
      expect(await service.send(companyId, secret, event, { at })).toMatchObject(expected)
    }
  }
  async function expectShown(body: object) {
    for (const use of everywhere(credentials))
      expect(await service.getSession(use)).toMatchObject({ status: 200, body })
  }
  await expectSending({ status: 202 })
  for (const status of ['suspended', 'canceled'] as const) {
    await changeSubscription(context, companyId, { status })
    await expectShown({ subscription: { status } })
    // Users can still sign in, to pay.
    expect((await service.loginAs(person)).subscription.status).toBe(status)
    await expectSending({ status: 402, body: { code: 'subscription_inactive' } })
  }
  await changeSubscription(context, companyId, { status: 'past_due' })
  await expectSending({ status: 202 })
  await changeSubscription(context, companyId, { status: 'active', plan: 'starter' })
  await expectShown({ subscription: { plan: 'starter' }, planFeatures: ['risk_assessment'] })
  await expectSending({ status: 402, body: { code: 'feature_not_in_plan' } })
  await changeSubscription(context, companyId, { status: 'active', plan: 'growth' })
  await expectSending({ status: 202 })
  await changeCompanyStatus(context, companyId, 'suspended')
  await expectSending({ status: 401, body: { code: 'invalid_signature' } })
})
