import { expect, test } from 'vitest'
import { checkHandle, giveHandle } from '../../src/company/handles.ts'
import { deleteCompany } from '../../src/operator/company-deletion.ts'
import { pruneAcrossCompanies } from '../../src/operator/retention.ts'
import { listAudit } from '../support/audit.ts'
import { openMailbox } from '../support/mailbox.ts'
import { useService } from '../support/onboarding.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { NEW_PASSWORD, openTestService, PASSWORD, type Person, times } from '../support/test-service.ts'

/** People type the handle instead of the company's ID. */

const mailbox = await openMailbox()
const service = await openTestService({ instances: 2, env: { SMTP_URL: mailbox.url, CELL: 'eu1' } })
const { register, allSent } = useService(service, mailbox)
const strict = await openTestService({ env: { RATE_LIMIT_SCALE: '1', LIMIT_SIGN_IN_ATTEMPTS: '1000/60' } })

type Options = Parameters<typeof service.call>[1]

const { handleOf } = service
const signIn = (company: string, person: Person, options: Options = {}) =>
  service.call('/auth/login', { json: { company, email: person.email, password: PASSWORD }, ...options })
const tokenOf = async (person: Person) => (await service.loginAs(person)).accessToken
const change = async (admin: Person, json: object, options: Options = {}) =>
  await service.call('/auth/company', { method: 'PATCH', token: await tokenOf(admin), json, ...options })

test('a handle excludes companyId, and a UUID is not a handle (ASVS 2.2.3)', async () => {
  const { companyId, email } = await service.addCompany()
  const json = { email, password: PASSWORD }
  const answers = [
    [{ ...json, companyId, company: 'acme-1234-eu1' }, '/company'],
    [{ ...json, company: companyId }, '/company'],
    [json, '/companyId'],
  ] as const
  for (const [body, path] of answers) {
    expectField(await service.call('/auth/login', { json: body }), path)
    const { password: _password, ...account } = body
    expectField(await service.call('/auth/password/forgot', { json: account }), path)
  }
})

test('a handle is created from the name when the email is verified', async () => {
  const { token, email, companyId } = await register()
  expect(await handleOf({ companyId })).toBe('')
  const { body } = await service.call('/auth/verify-email', { json: { token } })
  const companyHandle = expect.stringMatching(/^company-of-person[\w-]+-\d{4}-eu1$/)
  expect(body).toEqual({ companyId, companyHandle, email, status: 'active' })
})

test.each([
  ['Łódź & Söhne GmbH', /^lodz-sohne-gmbh-\d{4}-eu1$/],
  ['42 Fish', /^fish-\d{4}-eu1$/],
  ['Ελληνική', /^company-\d{4}-eu1$/],
  ['A very long name of a company that nobody types', /^a-very-long-name-of-a-company-t-\d{4}-eu1$/],
])('a handle of %s has Latin letters and digits, at most 40', async (name, form) => {
  const handle = await handleOf(await service.addCompany({ name }))
  expect(handle).toMatch(form)
  expect(handle.length).toBeLessThanOrEqual(40)
})

test('a handle gets more digits until it is free', async () => {
  const same = { ...service.context, system: { ...service.context.system, randomBytes: Buffer.alloc } }
  const companies = await Promise.all(times(3, () => service.addCompany()))
  const given: (string | null)[] = []
  for (const { companyId } of companies) {
    await service.db.transaction().execute(async (tx) => {
      const company = tx.updateTable('companies').where('company_id', '=', companyId)
      await company.set({ handle: null, name: 'Same' }).execute()
      given.push(await giveHandle(tx, same, companyId, service.clock.now()))
    })
  }
  expect(given).toEqual(['same-0000-eu1', 'same-00000-eu1', 'same-000000-eu1'])
})

test('a handle works in requests for emails, and every email contains it', async () => {
  const person = await service.addCompany({ name: 'Mailed' })
  const { email } = person
  const handle = await handleOf(person)
  await service.call('/auth/password/forgot', { json: { company: handle, email } })
  const reset = await mailbox.mailTo(email)
  const { token } = reset
  const preview = await service.call('/auth/password/reset/preview', { json: { token } })
  expect(preview.body).toMatchObject({ companyName: 'Mailed', companyHandle: handle, email })
  await service.call('/auth/password/reset', { json: { token, newPassword: NEW_PASSWORD } })
  await service.call('/auth/companies/remind', { json: { email } })
  const changed = await mailbox.mailTo(email, 'was changed')
  const remind = await mailbox.mailTo(email, 'Your companies')
  for (const mail of [reset, changed, remind]) {
    expect(mail.email.text).toContain(handle)
    expect(mail.email.text).not.toContain(person.companyId)
  }
  expect(remind.email.text).toContain(`/sign-in#company=${handle}`)
  await allSent()
})

test('unknown handles get the same responses and limits as known ones (ASVS 6.3.8)', async () => {
  const admin = await strict.addCompany()
  const email = 'nobody@company.example'
  const seen: unknown[][] = []
  for (const company of ['nowhere-1234', await strict.handleOf(admin)]) {
    const answers: unknown[] = []
    for (const _ of times(11, String)) {
      const json = { company, email, password: PASSWORD }
      const { status, headers, body } = await strict.call('/auth/login', { json })
      const { 'x-request-id': _id, date: _date, ...told } = headers
      answers.push([status, told, { ...body, requestId: '' }])
    }
    seen.push(answers)
  }
  expect(seen[0]).toEqual(seen[1])
  expect(seen[0]?.at(-1)).toMatchObject([429, {}, { code: 'rate_limited' }])
})

test('guesses by handle and by ID count toward one limit', async () => {
  const company = await strict.addCompany()
  const { companyId, email } = company
  const handle = await strict.handleOf(company)
  const guess = (company: object) =>
    strict.call('/auth/login', { json: { ...company, email, password: 'a wrong password' } })
  for (const n of times(10, Number)) await guess(n % 2 ? { companyId } : { company: handle })
  expectProblem(await guess({ company: handle }), [429, 'rate_limited'])
  expectProblem(await guess({ companyId }), [429, 'rate_limited'])
})

test('a changed name or handle takes effect immediately on every instance', async () => {
  const admin = await service.addCompany({ name: 'Before' })
  const changes = () => listAudit(service.db, 'company_change', admin)
  const former = await handleOf(admin)
  const { status, body } = await change(admin, { name: 'After', handle: 'After-eu1' })
  expect([status, body]).toEqual([200, { id: admin.companyId, name: 'After', handle: 'after-eu1' }])
  const signedIn = await signIn('After-EU1', admin, { at: 1 })
  expect(signedIn.body.accessContext).toMatchObject({ companyName: 'After', companyHandle: 'after-eu1' })
  expectProblem(await signIn(former, admin), [401, 'invalid_credentials'])
  const before = { name: 'Before', handle: former }
  const after = { name: 'After', handle: 'after-eu1' }
  expect(await changes()).toMatchObject([{ details: { before, after } }])
  expectField(await change(admin, { name: 'Other', handle: 'support-eu1' }), '/handle')
  expect((await change(admin, { name: 'After', handle: 'after-eu1' })).status).toBe(200)
  expect(await changes()).toHaveLength(1)
})

test.each([
  ['that begins with a digit', '1acme-eu1'],
  ['that ends with a hyphen', 'acme-eu1-'],
  ['of 41 characters', `a${'b'.repeat(36)}-eu1`],
  ['of a different cell', 'acme-us1'],
  ['in the form of an id', 'a1fb7d73-e4aa-7d64-8064-cc65cb0da5c5'],
  ['that could pass for the platform', 'support-eu1'],
])('an admin cannot choose a handle %s', (_what, handle) => {
  const extras = { errors: [expect.objectContaining({ path: '/handle' })] }
  const error = expect.objectContaining({ code: 'invalid_request', extras })
  expect(() => checkHandle(handle, 'eu1')).toThrow(error)
})

test("an admin cannot take another company's handle, even concurrently", async () => {
  const admins = await Promise.all(times(6, () => service.addCompany()))
  const tokens = await Promise.all(admins.map(tokenOf))
  const take = (token: string, index: number) =>
    service.call('/auth/company', { method: 'PATCH', token, json: { handle: 'raced-eu1' }, at: index % 2 })
  const answers = await Promise.all(tokens.map(take))
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409, 409])
  for (const answer of answers.filter(({ status }) => status === 409))
    expectProblem(answer, [409, 'handle_taken'])
})

test('an admin can attempt five handle changes a day', async () => {
  const [one, other] = [await strict.addCompany(), await strict.addCompany()]
  const { accessToken: token } = await strict.loginAs(one)
  const { accessToken: others } = await strict.loginAs(other)
  const rename = (token: string, json: { handle: string } | { name: string }) =>
    strict.call('/auth/company', { method: 'PATCH', token, json })
  expect((await rename(others, { handle: 'taken' })).status).toBe(200)
  for (const _ of times(5, String))
    expectProblem(await rename(token, { handle: 'taken' }), [409, 'handle_taken'])
  expectProblem(await rename(token, { handle: 'free' }), [429, 'rate_limited'])
  // A new name does not count as a new handle.
  expect((await rename(token, { name: 'New' })).status).toBe(200)
})

test('previous handles stay reserved: two always, others for 90 days', async () => {
  async function take(admin: Person, handle: string): Promise<number> {
    service.clock.advance(1)
    return (await change(admin, { handle })).status
  }
  const [one, other] = [await service.addCompany(), await service.addCompany()]
  const gone = await service.addCompany()
  for (const handle of ['first-eu1', 'second-eu1', 'third-eu1', 'fourth-eu1'])
    expect(await take(one, handle)).toBe(200)
  expect(await take(gone, 'gone-eu1')).toBe(200)
  await deleteCompany(service.context, gone.companyId)
  for (const handle of ['first-eu1', 'second-eu1', 'third-eu1', 'gone-eu1'])
    expect(await take(other, handle)).toBe(409)
  service.clock.advance(91 * 86_400)
  expect(await take(other, 'gone-eu1')).toBe(200)
  await pruneAcrossCompanies(service.context, service.clock.now())
  expect(await take(other, 'second-eu1')).toBe(409)
  expect(await take(other, 'third-eu1')).toBe(409)
  expect(await take(other, 'first-eu1')).toBe(200)
  expect(await take(one, 'third-eu1')).toBe(200)
})
