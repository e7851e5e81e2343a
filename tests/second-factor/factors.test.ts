import { randomBytes, randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { companySecurity } from '../../src/operator/companies.ts'
import { listAudit } from '../support/audit.ts'
import { createAuthenticator } from '../support/authenticator.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { claimsOf, cookieFrom, expectWrong, must, useFactorService } from '../support/second-factors.ts'
import { countWaiting, PASSWORD, times } from '../support/test-service.ts'

/** Members add and remove their own second factors (ASVS 6.5.6). */

const service = await useFactorService()
const admin = await service.addCompany()
const { call, confirmTotp: confirm, removeFactor: remove } = service
const now = () => service.clock.now()
const totp = '/auth/second-factors/totp'
const passkeys = '/auth/second-factors/passkeys'

const newMember = () => service.signedIn(admin)
const list = async (token: string) => await must(call('/auth/second-factors', { method: 'GET', token }))

test('an authenticator app takes effect only when its first code is confirmed', async () => {
  const person = await newMember()
  const { token } = person
  const app = await service.beginTotp({ token })
  expect((await list(token)).secondFactors).toEqual([])
  expect((await service.login(person)).status).toBe(200)
  const wrong = { token, json: { code: '000000' } }
  expectField(await call(`${totp}/${app.id}/confirm`, wrong), '/code')
  expect((await must(confirm({ token }, app))).recoveryCodes).toHaveLength(10)
  const createdAt = new Date(now()).toISOString()
  expect(await list(token)).toEqual({
    secondFactors: [{ id: app.id, kind: 'totp', name: 'Authenticator app', createdAt, lastUsedAt: null }],
    recoveryCodes: 10,
    required: false,
    enrolmentRequired: false,
    mailCodeRequired: false,
  })
  expect((await service.login(person)).body.code).toBe('second_factor_required')
  expectProblem(await confirm({ token }, app), [404, 'not_found'])
})

test('only its owner confirms the newest authenticator app, for an hour', async () => {
  const cookie = await service.cookieOf(await service.addUser(admin))
  const replaced = await service.beginTotp({ cookie })
  const app = await service.beginTotp({ cookie })
  expect(app.secret).not.toBe(replaced.secret)
  expectProblem(await confirm({ cookie }, replaced), [404, 'not_found'])
  const { token } = await newMember()
  expectProblem(await confirm({ token }, app), [404, 'not_found'])
  service.clock.advance(3601)
  const proven = await call('/auth/reauthenticate', { cookie, json: { password: PASSWORD } })
  expectProblem(await confirm({ cookie: cookieFrom(proven) }, app), [404, 'not_found'])
})

test('an authenticator app is confirmed by one of ten concurrent requests (ASVS 2.3.4)', async () => {
  const person = await newMember()
  const { token } = person
  const app = await service.beginTotp({ token })
  const answers = await Promise.all(times(10, (n) => confirm({ token }, app, n % 2)))
  const done = answers.filter(({ status }) => status === 200)
  expect(done).toHaveLength(1)
  expect(answers.filter(({ status }) => status === 404)).toHaveLength(9)
  service.clock.advance(30)
  const { challenge } = await service.begin(person)
  const code = done[0]?.body.recoveryCodes[0]
  await must(service.complete({ challenge, method: 'recovery_code', code }))
})

test('an authenticator app can be added twice, and both work', async () => {
  const person = await service.personWithTotp(admin)
  const { secret } = await service.addTotp({ token: person.token })
  expectProblem(await call(totp, { token: person.token }), [409, 'quota_reached'])
  for (const one of [person.secret, secret])
    expect((await service.signInByTotp({ ...person, secret: one })).status).toBe(200)
})

test('a passkey has a name, a last use, and emails about it (ASVS 6.3.7)', async () => {
  const person = await newMember()
  const { token } = person
  const authenticator = createAuthenticator()
  const name = ' Ada’s laptop '
  const { id, recoveryCodes } = await service.addPasskey({ token }, authenticator, { name })
  expect(recoveryCodes).toHaveLength(10)
  const { email } = await service.mailbox.mailTo(person.email, 'A second factor was added')
  expect(email.text).toContain('The passkey “Ada’s laptop” was added')
  service.clock.advance(60)
  const { challenge, passkeyOptions } = await service.begin(person)
  const allowCredentials = [{ id: authenticator.id, type: 'public-key' }]
  expect(passkeyOptions).toMatchObject({ challenge, rpId: 'localhost', allowCredentials })
  const response = authenticator.get(passkeyOptions)
  await must(service.complete({ challenge, method: 'passkey', response }))
  const used = { id, kind: 'passkey', name: 'Ada’s laptop', lastUsedAt: new Date(now()).toISOString() }
  expect((await list(token)).secondFactors).toMatchObject([used])
  const next = await must(call(`${passkeys}/options`, { token }))
  const unnamed = { response: createAuthenticator().create(next.passkeyOptions), name: 'a\nb' }
  expectField(await call(passkeys, { token, json: unnamed }), '/name')
  await must(remove(id, token))
  await service.mailbox.mailTo(person.email, 'A second factor was removed')
  const entry = { outcome: 'done', subject: id, details: { kind: 'passkey' } }
  for (const action of ['second_factor_add', 'second_factor_remove'])
    expect(await listAudit(service.db, action, person)).toMatchObject([entry])
})

test('a member can add passkeys until there are twenty', async () => {
  const { token, id } = await service.personWithPasskey(admin)
  const one = service.db.selectFrom('second_factors').selectAll().where('factor_id', '=', id)
  const row = await one.executeTakeFirstOrThrow()
  const copies = times(18, () => ({ ...row, factor_id: randomUUID(), credential_id: randomBytes(32) }))
  await service.db.insertInto('second_factors').values(copies).execute()
  await service.addPasskey({ token })
  const { passkeyOptions } = await must(call(`${passkeys}/options`, { token }))
  expect(passkeyOptions.excludeCredentials).toHaveLength(20)
  const response = createAuthenticator().create(passkeyOptions)
  const answer = await call(passkeys, { token, json: { response, name: 'one more' } })
  expectProblem(answer, [409, 'quota_reached'])
})

test("adding a factor ends the member's other sessions (ASVS 7.4.3)", async () => {
  const person = await newMember()
  const { token } = person
  const before = await service.loginAs(person)
  const cookie = await service.cookieOf(person)
  const app = await service.beginTotp({ token })
  expect((await service.getSession({ cookie })).status).toBe(200)
  await must(confirm({ token }, app))
  for (const credential of [{ token: before.accessToken }, { cookie }])
    await service.expectEnded(credential, 'ended_by_user')
  expect((await service.refresh(before.refreshToken)).body.code).toBe('session_ended')
  expect((await service.getSession({ token, at: 1 })).status).toBe(200)
})

test('factors change amr in new tokens, but not auth_time (RFC 8176, RFC 9068 section 2.2.1)', async () => {
  const company = await service.addCompany()
  const first = await service.loginAs(await service.addUser(company))
  const { auth_time: authTime } = claimsOf(first.accessToken)
  service.clock.advance(300)
  const app = await service.addTotp({ token: first.accessToken })
  const passkey = await service.addPasskey({ token: first.accessToken })
  const next = await must(service.refresh(first.refreshToken))
  const amr = ['pwd', 'otp', 'mfa', 'swk', 'user']
  expect(claimsOf(next.accessToken)).toMatchObject({ amr, auth_time: authTime })
  for (const { id } of [app, passkey]) await must(remove(id, next.accessToken))
  const last = await must(service.refresh(next.refreshToken))
  expect(claimsOf(last.accessToken)['amr']).toEqual(['pwd', 'otp', 'swk', 'user'])
  await companySecurity(service.context, company.companyId, { secondFactor: 'everyone' })
  for (const token of [next.accessToken, last.accessToken]) {
    const { body } = await call('/auth/sessions', { method: 'GET', token, at: 1 })
    expect(body.code).toBe('second_factor_enrolment_required')
  }
})

test('members remove only their own factors, and recovery codes with the last', async () => {
  const person = await service.personWithTotp(admin)
  const passkey = await service.addPasskey({ token: person.token })
  expect(passkey.recoveryCodes).toBeUndefined()
  const { token: other } = await service.personWithTotp(admin)
  expectProblem(await remove(person.id, other), [404, 'not_found'])
  await must(remove(person.id, person.token))
  expect(await list(person.token)).toMatchObject({ secondFactors: [{ kind: 'passkey' }], recoveryCodes: 10 })
  await must(remove(passkey.id, person.token))
  expect(await list(person.token)).toMatchObject({ secondFactors: [], recoveryCodes: 0 })
  const renewal = call('/auth/second-factors/recovery-codes', { token: person.token })
  expectProblem(await renewal, [409, 'factor_required'])
  const session = await service.loginAs(person)
  expect(claimsOf(session.accessToken)['amr']).toEqual(['pwd'])
  const again = await service.addTotp({ token: session.accessToken })
  expect(again.recoveryCodes).toHaveLength(10)
  expect(person.recoveryCodes?.some((code) => again.recoveryCodes?.includes(code))).toBe(false)
})

test('removing both factors concurrently on two instances removes the recovery codes', async () => {
  const person = await service.personWithTotp(admin)
  const passkey = await service.addPasskey({ token: person.token })
  const answers = await Promise.all([remove(person.id, person.token), remove(passkey.id, person.token, 1)])
  expect(answers.map(({ status }) => status)).toEqual([204, 204])
  expect(await list(person.token)).toMatchObject({ secondFactors: [], recoveryCodes: 0 })
  expect((await service.login(person)).status).toBe(200)
})

test('new recovery codes replace the old ones, and cause an email (ASVS 6.3.7)', async () => {
  const person = await service.personWithTotp(admin)
  const path = '/auth/second-factors/recovery-codes'
  const answer = await call(path, { token: person.token })
  expect([answer.status, answer.body.recoveryCodes.length]).toEqual([201, 10])
  await service.mailbox.mailTo(person.email, 'New recovery codes')
  const [old] = person.recoveryCodes ?? []
  const [fresh] = answer.body.recoveryCodes
  const { challenge } = await service.begin(person)
  const give = (code: string | undefined) => service.complete({ challenge, method: 'recovery_code', code })
  expectWrong(await give(old))
  expect((await give(fresh)).status).toBe(200)
})

test('a session that ends concurrently cannot change factors', async () => {
  const person = await newMember()
  const { token } = person
  const app = await service.beginTotp({ token })
  const passkey = await service.addPasskey({ token })
  const { userId } = person
  const { changes } = await service.db.transaction().execute(async (tx) => {
    await tx.selectFrom('users').select('user_id').where('user_id', '=', userId).forUpdate().execute()
    const changes = [confirm({ token }, app), remove(passkey.id, token)]
    await expect.poll(() => countWaiting(service.db)).toBe(2)
    await sql`update users set session_epoch = session_epoch + 1, session_epoch_reason = 'ended_by_admin'
      where user_id = ${userId}`.execute(tx)
    return { changes }
  })
  for (const answer of await Promise.all(changes)) expect(answer.body.code).toBe('session_ended')
  const users = service.db.selectFrom('users').select('second_factors').where('user_id', '=', userId)
  expect(await users.execute()).toEqual([{ second_factors: ['passkey'] }])
})

test('a sign-in that races with the first factor leaves no session (ASVS 15.4.2)', async () => {
  const person = await newMember()
  const { token } = person
  const app = await service.beginTotp({ token })
  const logins = times(12, (n) => service.login(person, { at: n % 2 }))
  const confirming = confirm({ token }, app)
  const opened = (await Promise.all(logins)).filter(({ status }) => status === 200)
  expect((await confirming).status).toBe(200)
  for (const { body } of opened)
    expect((await service.getSession({ token: body.accessToken })).body.code).toBe('session_ended')
  expect((await service.login(person)).body.code).toBe('second_factor_required')
})

test('a service account neither needs nor can have a factor', async () => {
  const { accessToken } = await service.loginAs(admin)
  const account = await service.addServiceAccount(admin, accessToken)
  const { accessToken: token } = await service.loginAs(account)
  expect(await list(token)).toMatchObject({ secondFactors: [], required: false })
  for (const path of [totp, `${passkeys}/options`, '/auth/second-factors/mail-code'])
    expectProblem(await call(path, { token }), [403, 'permission_denied'])
})
