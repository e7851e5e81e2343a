import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { changeSubscription, createCompany } from '../../src/operator/companies.ts'
import { createUser, invite, requireUser } from '../../src/operator/users.ts'
import { expectProblem } from '../support/problem.ts'
import { PASSWORD, times, useSharedService } from '../support/test-service.ts'

const { service } = await useSharedService()
const { context } = service
const admin = await service.addCompany()

const usersOf = (companyId: string) =>
  service.db.selectFrom('users').select(['user_id', 'email']).where('company_id', '=', companyId).execute()

test('both spellings of a Unicode email find one account everywhere', async () => {
  const owner = await service.addCompany()
  const { companyId } = owner
  const { accessToken: token } = await service.loginAs(owner)
  const [unicode, ascii] = ['ida@bücher.example', 'ida@xn--bcher-kva.example']
  const role = 'viewer'
  const { userId } = await createUser(context, companyId, { email: unicode, role, password: PASSWORD })
  for (const email of [unicode, ascii]) {
    expect(await requireUser(service.db, companyId, { email })).toMatchObject({ userId })
    const taken = { code: 'already_member' }
    await expect(invite(context, companyId, { email, role })).rejects.toMatchObject(taken)
    const invited = await service.call('/auth/invitations', { token, json: { email, role } })
    expectProblem(invited, [409, 'already_member'])
    const search = encodeURIComponent(email)
    const found = await service.call(`/auth/members?search=${search}`, { method: 'GET', token })
    expect(found.body.members).toMatchObject([{ id: userId, email: ascii }])
  }
  expect(await usersOf(companyId)).toContainEqual({ user_id: userId, email: ascii })
})

test('an email added concurrently in several spellings is one account (ASVS 2.3.4)', async () => {
  const kelvin = '\u212aay@company.example'
  const spellings = ['Kay@Company.Example', 'KAY@company.example', 'kay@company.example', kelvin]
  const { companyId } = await service.addCompany()
  const user = { role: 'viewer', password: PASSWORD }
  const add = (i: number) => createUser(context, companyId, { email: spellings[i % 4] ?? '', ...user })
  const outcomes = await Promise.allSettled(times(8, add))
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
  expect(refused.length).toBe(7)
  for (const { reason } of refused) {
    expect(reason).toMatchObject({ code: 'invalid_request', extras: { errors: [{ path: '/email' }] } })
  }
  const users = (await usersOf(companyId)).filter(({ email }) => email?.startsWith('k'))
  expect(users.map(({ email }) => email)).toEqual(['kay@company.example'])
})

test('a company created several times under one ID exists once', async () => {
  const companyId = randomUUID()
  const company = { companyId, name: 'Once', adminEmail: 'once@company.example', password: PASSWORD }
  await Promise.all(times(8, () => createCompany(context, company)))
  expect(await usersOf(companyId)).toHaveLength(1)
  const person = { companyId, email: company.adminEmail, password: PASSWORD }
  const { accessContext } = await service.loginAs(person)
  expect(accessContext).toMatchObject({ companyId, companyName: 'Once', role: 'admin' })
})

const user = { email: 'new@company.example', role: 'viewer', password: PASSWORD }
const subscribe = (companyId: string, plan?: string) =>
  changeSubscription(context, companyId, { status: 'active', ...(plan && { plan }) })
const add = (change: object, companyId = admin.companyId) =>
  createUser(context, companyId, { ...user, ...change })

test.for<[what: string, attempt: () => Promise<unknown>, code: string]>([
  ['an unknown plan to a subscription', () => subscribe(admin.companyId, 'free'), 'invalid_request'],
  ['an unknown role to a user', () => add({ role: 'root' }), 'invalid_request'],
  ['a lookalike email to a user', () => add({ email: 'kım@company.example' }), 'invalid_request'],
  ['the email of a service account to a user', () => add({ email: 'a@service.invalid' }), 'invalid_request'],
  ['a user to an unknown company', () => add({}, randomUUID()), 'not_found'],
  ['a subscription to an unknown company', () => subscribe(randomUUID()), 'not_found'],
])('operators cannot give %s, and nothing is stored (ASVS 2.2.1, 2.3.3)', async ([, attempt, code]) => {
  const stored = async () => {
    const counts = sql`select (select count(*) from companies) as companies,
      (select count(*) from users) as users, (select count(*) from audit_events) as entries,
      (select status || plan from subscriptions where company_id = ${admin.companyId}) as plan`
    return (await counts.execute(service.db)).rows
  }
  const before = await stored()
  await expect(attempt()).rejects.toMatchObject({ code })
  expect(await stored()).toEqual(before)
})
