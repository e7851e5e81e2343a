import { expect, test } from 'vitest'
import { companySecurity } from '../../src/operator/companies.ts'
import { changeUserRole } from '../../src/operator/users.ts'
import { listAudit } from '../support/audit.ts'
import { createAuthenticator } from '../support/authenticator.ts'
import { codeIn } from '../support/mail-code.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { type Credential, claimsOf, must, useFactorService } from '../support/second-factors.ts'
import { type Answer, countWaiting, times } from '../support/test-service.ts'

/** A company can require a second factor of its admins, or of everyone (ASVS 6.3.3). */

const service = await useFactorService()
const { call } = service
const security = '/auth/company/security'
const totp = '/auth/second-factors/totp'
const passkeys = '/auth/second-factors/passkeys'

const setPolicy = (secondFactor: string, credential: Credential, at = 0) =>
  call(security, { method: 'PATCH', json: { secondFactor }, at, ...credential })
const expectHeld = (answer: Answer) => expectProblem(answer, [403, 'second_factor_enrolment_required'])
const factorsOf = async (token: string) => await must(call('/auth/second-factors', { method: 'GET', token }))
const sessions = (credential: Credential, at = 0) =>
  call('/auth/sessions', { method: 'GET', at, ...credential })

/** A company, and the session of its admin, who has a factor. */
async function newCompany() {
  const admin = await service.addCompany()
  const { accessToken: token } = await service.loginAs(admin)
  const { secret, id } = await service.addTotp({ token })
  return { ...admin, token: token as string, secret, id }
}

/** A member without a factor whom the policy blocks, and their session. */
async function held(role = 'viewer') {
  const admin = await newCompany()
  const person = await service.signedIn(admin, role)
  await must(setPolicy('everyone', { token: admin.token }))
  return { admin, person, token: person.token, refreshToken: person.refreshToken }
}

test('managers of members see how many members each policy blocks', async () => {
  const admin = await newCompany()
  await service.addUser(admin, 'admin')
  await service.addUser(admin, 'developer')
  await service.personWithTotp(admin)
  await service.addServiceAccount(admin, admin.token)
  const concerned = { optional: 0, admins: 1, everyone: 2 }
  const read = await call(security, { method: 'GET', token: admin.token })
  const limits = { sessionIdleSeconds: null, sessionMaxAgeSeconds: null }
  expect(read.body).toEqual({ secondFactor: 'optional', ...limits, concerned })
  const { body } = await setPolicy('admins', { token: admin.token })
  expect(body).toEqual({ secondFactor: 'admins', ...limits, concerned })
  expectProblem(await setPolicy('all', { token: admin.token }), [400, 'invalid_request'])
})

test('a new second-factor policy is audited, and emailed to admins (ASVS 6.3.7)', async () => {
  const admin = await newCompany()
  const other = await service.addUser(admin, 'admin')
  await service.addUser(admin, 'viewer')
  await must(setPolicy('everyone', { token: admin.token }))
  await must(setPolicy('everyone', { token: admin.token }))
  for (const { email } of [admin, other]) await service.mailbox.mailTo(email, 'required for everyone')
  const mails = service.db.selectFrom('mail_outbox').select('recipient')
  const queued = mails.where('company_id', '=', admin.companyId).where('kind', '=', 'security_policy_changed')
  // The second request changed nothing, and the viewer gets no email.
  const recipients = (await queued.execute()).map(({ recipient }) => recipient)
  expect(recipients.toSorted()).toEqual([admin.email, other.email].toSorted())
  const details = { before: { secondFactor: 'optional' }, after: { secondFactor: 'everyone' } }
  expect(await listAudit(service.db, 'security_policy', admin)).toMatchObject([{ details }])
})

test('the policy blocks sessions on the next request, on every instance (ASVS 8.3.2)', async () => {
  const admin = await newCompany()
  const { token, ...person } = await service.signedIn(admin)
  const cookie = await service.cookieOf(person)
  const server = await service.addServiceAccount(admin, admin.token)
  const { accessToken: ofServer } = await service.loginAs(server)
  expect((await sessions({ token })).status).toBe(200)
  await must(setPolicy('everyone', { token: admin.token }))
  for (const at of [0, 1]) {
    expectHeld(await sessions({ token }, at))
    expectHeld(await sessions({ cookie }, at))
  }
  // The admin used a factor, and service accounts need none.
  for (const one of [admin.token, ofServer]) expect((await sessions({ token: one }, 1)).status).toBe(200)
  expectHeld(await sessions({ token: (await service.loginAs(person)).accessToken }))
  await must(setPolicy('optional', { token: admin.token }))
  expect((await sessions({ token })).status).toBe(200)
  const { secondFactor } = await companySecurity(service.context, admin.companyId, {
    secondFactor: 'everyone',
  })
  expect(secondFactor).toBe('everyone')
  expectHeld(await sessions({ token }))
})

test('a blocked session reaches only its factors, re-authentication, and sign-out', async () => {
  const { token, refreshToken } = await held('admin')
  const { body: document } = await call('/openapi.json', { method: 'GET' })
  const open: string[] = []
  for (const [path, methods] of Object.entries<Record<string, { security: object[] }>>(document.paths)) {
    for (const [method, { security: guards }] of Object.entries(methods)) {
      const isOfSession = guards.some((guard) => 'accessToken' in guard)
      const isOptional = guards.some((guard) => Object.keys(guard).length === 0)
      if (!isOfSession || isOptional || path === '/auth/logout') continue
      const target = path.replace(/\{\w+\}/g, '01890a5d-ac96-774b-bcce-b302099a8057')
      const answer = await call(target, { method: method.toUpperCase(), token })
      if (answer.body.code !== 'second_factor_enrolment_required')
        open.push(`${method.toUpperCase()} ${path}`)
    }
  }
  expect(open.toSorted()).toEqual([
    'DELETE /auth/second-factors/{id}',
    'GET /auth/second-factors',
    'GET /auth/session',
    'POST /auth/reauthenticate',
    'POST /auth/reauthenticate/passkey/options',
    'POST /auth/second-factors/mail-code',
    'POST /auth/second-factors/passkeys',
    'POST /auth/second-factors/passkeys/options',
    'POST /auth/second-factors/recovery-codes',
    'POST /auth/second-factors/totp',
    'POST /auth/second-factors/totp/{id}/confirm',
  ])
  const next = await must(service.refresh(refreshToken))
  expectHeld(await sessions({ token: next.accessToken }))
  await must(call('/auth/logout', { token: next.accessToken }))
  expect((await service.getSession({ token: next.accessToken })).body.code).toBe('session_ended')
})

test("a policy for admins follows each member's role", async () => {
  const admin = await newCompany()
  const { token, ...person } = await service.signedIn(admin)
  await must(setPolicy('admins', { token: admin.token }))
  expect((await sessions({ token })).status).toBe(200)
  await changeUserRole(service.context, person.companyId, person, 'admin')
  expectHeld(await sessions({ token }))
  await changeUserRole(service.context, person.companyId, person, 'viewer')
  expect((await sessions({ token })).status).toBe(200)
})

const askForCode = (token: string) => call('/auth/second-factors/mail-code', { token })
async function codeFor({ email }: { email: string }, token: string): Promise<string> {
  await must(askForCode(token))
  return codeIn(await service.mailbox.mailTo(email, 'Your code for'))
}
const newPasskey = async (token: string) =>
  createAuthenticator().create((await must(call(`${passkeys}/options`, { token }))).passkeyOptions)
const beginWith = (mailCode: string, token: string) => call(totp, { token, json: { mailCode } })

test('members whom the policy blocks add an app with an emailed code (ASVS 6.4.1, 6.5.4)', async () => {
  const { person, token, refreshToken } = await held()
  const isBlocked = { required: true, enrolmentRequired: true, mailCodeRequired: true }
  expect(await factorsOf(token)).toMatchObject(isBlocked)
  expectField(await call(totp, { token }), '/mailCode')
  const mailCode = await codeFor(person, token)
  expect(mailCode).toMatch(/^\d{8}$/)
  await service.addTotp({ token }, { mailCode })
  expect((await sessions({ token })).status).toBe(200)
  const next = await must(service.refresh(refreshToken))
  expect(claimsOf(next.accessToken)['amr']).toEqual(['pwd', 'otp', 'mfa'])
  // The next factor requires no code, and no code is sent.
  expectProblem(await askForCode(token), [403, 'permission_denied'])
  expectField(await beginWith('12345678', token), '/mailCode')
  await service.addPasskey({ token })
})

test('an emailed code works, in any spelling, until a factor is added', async () => {
  const { person, token } = await held()
  const code = await codeFor(person, token)
  const mailCode = ` ${code.slice(0, 4)}\u00a0–\u00a0${code.slice(4)}`
  // More often than there are tries. Neither malformed nor correct codes consume one.
  for (const wrong of ['1234567', '123456789', 'x'.repeat(8), '1234 567\u00b2', '–'])
    expectField(await beginWith(wrong, token), '/mailCode')
  for (const _ of times(6, () => 0)) await must(beginWith(mailCode, token))
  const { id } = await service.addPasskey({ token }, createAuthenticator(), { mailCode })
  expect((await sessions({ token })).status).toBe(200)
  await companySecurity(service.context, person.companyId, { secondFactor: 'optional' })
  await must(service.removeFactor(id, token))
  await companySecurity(service.context, person.companyId, { secondFactor: 'everyone' })
  expectField(await beginWith(mailCode, token), '/mailCode')
  expect(await factorsOf(token)).toMatchObject({ secondFactors: [], required: true, mailCodeRequired: true })
})

test('ten requests with one emailed code add the first factor once (ASVS 2.3.4)', async () => {
  const { person, token } = await held()
  const mailCode = await codeFor(person, token)
  const responses: object[] = []
  for (const _ of times(5, () => 0)) responses.push(await newPasskey(token))
  const add = (n: number) =>
    call(passkeys, { token, json: { response: responses[n % 5], name: 'Key', mailCode }, at: n % 2 })
  const answers = await Promise.all(times(10, add))
  const added = answers.filter(({ status }) => status === 201)
  // Several may succeed: once there is a factor, the next one needs no code, and these options were issued earlier.
  expect(added.length).toBeGreaterThan(0)
  expect(added.filter(({ body }) => body.recoveryCodes)).toHaveLength(1)
  expect(answers.filter(({ status }) => status >= 500)).toEqual([])
})

test("only the session's newest code works: five tries, ten minutes (ASVS 6.5.5, 6.6.2)", async () => {
  const { admin, person, token } = await held()
  const { accessToken: second } = await service.loginAs(person)
  const other = await service.signedIn(admin)
  const [foreign, foreignCode] = [other.token, await codeFor(other, other.token)]
  const replaced = await codeFor(person, token)
  const mailCode = await codeFor(person, token)
  service.clock.advance(590)
  expectField(await beginWith(mailCode, foreign), '/mailCode')
  // More often than there are tries. The code's own session keeps its tries.
  for (const _ of times(6, () => 0)) expectField(await beginWith(mailCode, second), '/mailCode')
  await must(beginWith(mailCode, token))
  await must(beginWith(foreignCode, foreign))
  for (const wrong of [replaced, ...times(4, () => '00000000')])
    expectField(await beginWith(wrong, token), '/mailCode')
  expectField(await beginWith(mailCode, token), '/mailCode')
  service.clock.advance(11)
  expectField(await beginWith(foreignCode, foreign), '/mailCode')
})

test('a factor added while the last one is removed needs a code (ASVS 15.4.2)', async () => {
  const admin = await newCompany()
  const people = await Promise.all(times(3, () => service.personWithPasskey(admin)))
  const [first = '', second = '', third = ''] = people.map(({ token }) => token)
  const response = await newPasskey(second)
  const begun = await service.beginTotp({ token: third }, {})
  const { waiting } = await service.db.transaction().execute(async (tx) => {
    for (const { id, userId } of people) {
      await tx.updateTable('users').set({ second_factors: [] }).where('user_id', '=', userId).execute()
      await tx.deleteFrom('second_factors').where('factor_id', '=', id).execute()
    }
    const waiting = [
      call(totp, { token: first }),
      call(passkeys, { token: second, json: { response, name: 'Key' } }),
      service.confirmTotp({ token: third }, begun),
    ]
    await expect.poll(() => countWaiting(service.db)).toBe(3)
    return { waiting }
  })
  const paths = (await Promise.all(waiting)).map(({ body }) => body.errors[0].path)
  expect(paths).toEqual(['/mailCode', '/mailCode', '/code'])
})

test('the last required factor cannot be removed, but an earlier one can', async () => {
  const admin = await newCompany()
  await must(setPolicy('admins', { token: admin.token }))
  const remove = (id: string) => service.removeFactor(id, admin.token)
  expectProblem(await remove(admin.id), [409, 'factor_required'])
  const { id } = await service.addPasskey({ token: admin.token })
  expect((await remove(admin.id)).status).toBe(204)
  expectProblem(await remove(id), [409, 'factor_required'])
  expect(await factorsOf(admin.token)).toMatchObject({ secondFactors: [{ id }], recoveryCodes: 10 })
})

test('two concurrent requests cannot remove the last required factor', async () => {
  const admin = await newCompany()
  const { id } = await service.addPasskey({ token: admin.token })
  await must(setPolicy('everyone', { token: admin.token }))
  const removals = [admin.id, id].map((one, at) => service.removeFactor(one, admin.token, at))
  const answers = await Promise.all(removals)
  expect(answers.map(({ status }) => status).toSorted()).toEqual([204, 409])
})
