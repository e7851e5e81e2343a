import { randomUUID } from 'node:crypto'
import { hash } from '@node-rs/argon2'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { PLATFORM } from '../../src/audit/entry.ts'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { changeUserStatus } from '../../src/operator/users.ts'
import { selectAudit } from '../support/audit.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { COOKIE_MODE } from '../support/second-factors.ts'
import {
  createCountingHasher,
  openTestService,
  PASSWORD,
  type Person,
  times,
} from '../support/test-service.ts'
import { countLive, visible } from './state.ts'

const hasher = await createCountingHasher()
const service = await openTestService({ hasher })
const admin = await service.addCompany()

const refusalsOf = (companyId: string) =>
  service.db
    .selectFrom('refused_sign_ins')
    .selectAll()
    .where('company_id', '=', companyId)
    .orderBy('minute')
    .orderBy('kind', 'desc')
    .execute()

async function storedHash({ userId }: Person) {
  const users = service.db.selectFrom('users').select('password_hash').where('user_id', '=', userId)
  return (await users.executeTakeFirstOrThrow()).password_hash
}

test('sign-in returns tokens, session, user, subscription, and access context', async () => {
  const now = service.clock.now()
  const subscriptions = service.db.selectFrom('subscriptions').where('company_id', '=', admin.companyId)
  const { current_period_end: trialEnd } = await subscriptions.selectAll().executeTakeFirstOrThrow()
  const { status, headers, body } = await service.login(admin)
  expect([status, headers['cache-control'], headers['set-cookie']]).toEqual([200, 'no-store', undefined])
  expect(body).toMatchObject({
    expiresIn: 900,
    refreshExpiresIn: 604_800,
    session: {
      createdAt: new Date(now).toISOString(),
      expiresAt: new Date(now + 604_800_000).toISOString(),
    },
    user: { id: admin.userId, email: admin.email, name: admin.email, role: 'admin' },
    subscription: { status: 'trialing', plan: 'growth', currentPeriodEnd: trialEnd.toISOString() },
    planFeatures: ['risk_assessment', 'event_ingest', 'reviews', 'analytics'],
    accessContext: {
      companyId: admin.companyId,
      companyHandle: await service.handleOf(admin),
      companyName: 'Company 1',
      role: 'admin',
      assignments: ['environment:production'],
    },
  })
})

const [disabled, unverified] = [await service.addUser(admin), await service.addUser(admin)]
const suspended = await service.addCompany()
const disable = (person: Person) => changeUserStatus(service.context, person.companyId, person, 'disabled')
const suspend = ({ companyId }: Person) => changeCompanyStatus(service.context, companyId, 'suspended')
await disable(disabled)
await suspend(suspended)
await service.db
  .updateTable('users')
  .set({ email_verified_at: null })
  .where('user_id', '=', unverified.userId)
  .execute()

const password = 'not the password'
const failures: [cause: string, person: Omit<Person, 'userId'>, reason: string, userId: string | null][] = [
  ['wrong password', { ...admin, password }, 'wrong_password', admin.userId],
  ['unknown user', { ...admin, email: 'nobody@company.example' }, 'unknown_user', null],
  ['unknown company', { ...admin, companyId: randomUUID() }, 'unknown_company', null],
  ['disabled user', disabled, 'user_disabled', disabled.userId],
  ['disabled user, wrong password', { ...disabled, password }, 'user_disabled', disabled.userId],
  ['suspended company', suspended, 'company_suspended', suspended.userId],
  ['suspended company, wrong password', { ...suspended, password }, 'company_suspended', suspended.userId],
  ['unverified address, wrong password', { ...unverified, password }, 'wrong_password', unverified.userId],
]

test('failed sign-ins get the same response for every cause (ASVS 6.3.8)', async () => {
  const answers = []
  for (const [, person] of failures.filter(([cause]) => !cause.includes(',')))
    answers.push(visible(await service.login(person)))
  const [first] = answers
  expect(first).toMatchObject({ status: 401, body: { code: 'invalid_credentials', status: 401 } })
  expect(first?.headers).toMatchObject({
    'www-authenticate': 'Bearer realm="gatehouse"',
    'cache-control': 'no-store',
    'ratelimit-policy': '"sign-in-failures";q=10000;w=900',
    ratelimit: '"sign-in-failures";r=9999;t=900',
  })
  for (const answer of answers) expect(answer).toStrictEqual(first)
})

test.for(failures)('a sign-in refused for %s costs one hash (ASVS 6.3.8, 16.3.1)', async (failure) => {
  const [, person, reason, user_id] = failure
  service.clock.advance(60)
  Object.assign(hasher, { verified: 0, hashed: 0 })
  expectProblem(await service.login(person), [401, 'invalid_credentials'])
  expect([hasher.verified, hasher.hashed]).toEqual([1, 0])
  const now = service.clock.now()
  // Refusals at companies that do not exist are stored under one ID.
  const company_id = reason === 'unknown_company' ? PLATFORM : person.companyId
  const who = { company_id, user_id, last_email: person.email, reason, kind: expect.any(String) }
  const when = { minute: new Date(now - (now % 60_000)), last_at: new Date(now), count: 1 }
  const where = { network: '127.0.0.1', ip_address: '127.0.0.1' }
  expect((await refusalsOf(company_id)).at(-1)).toEqual({ ...who, ...when, ...where })
})

test('an unverified email is refused only with the password (ASVS 2.3.1)', async () => {
  const { status, body } = await service.login(unverified)
  expect([status, body.code, body.category]).toEqual([403, 'email_not_verified', 'permission'])
  const { userId: user_id, email: last_email } = unverified
  const refusal = { reason: 'email_not_verified', user_id, last_email }
  expect(await refusalsOf(unverified.companyId)).toContainEqual(expect.objectContaining(refusal))
  // None of the sign-ins opened a session.
  for (const person of [disabled, suspended, unverified]) expect(await countLive(service, person)).toBe(0)
})

test('each sign-in opens a new session and is audited (ASVS 7.2.2, 7.2.4, 16.2.1, 16.3.1)', async () => {
  const { companyId, userId, ...user } = await service.addUser(admin)
  const opened = await Promise.all(times(5, () => service.loginAs({ companyId, ...user })))
  for (const of of ['session', 'accessToken', 'refreshToken'])
    expect(new Set(opened.map((body) => JSON.stringify(body[of]))).size).toBe(5)
  for (const { accessToken: token, session } of opened) {
    expect((await service.getSession({ token })).status).toBe(200)
    const entries = selectAudit(service.db).selectAll().where('session_id', '=', session.id)
    const occurred_at = new Date(service.clock.now())
    const entry = { occurred_at, action: 'sign_in', outcome: 'done', actor: userId, ip_address: '127.0.0.1' }
    expect(await entries.execute()).toMatchObject([{ company_id: companyId, ...entry, details: null }])
  }
})

test.for([
  'update audit_events set actor = actor where false',
  'delete from audit_events',
  'truncate audit_events, companies cascade',
])('the audit trail refuses `%s` (ASVS 16.4.2)', async (statement) => {
  await expect(sql.raw(statement).execute(service.db)).rejects.toThrow('append-only')
})

test('a company ID has one spelling, or is refused (ASVS 1.1.1, 2.2.1)', async () => {
  const { accessContext } = await service.loginAs({ ...admin, companyId: admin.companyId.toUpperCase() })
  expect(accessContext.companyId).toBe(admin.companyId)
  const urn = await service.login({ ...admin, companyId: `urn:uuid:${admin.companyId}` })
  expectField(urn, '/companyId')
})

const skilled = await service.addUser(admin, 'viewer', { email: 'kim.skill@company.example' })
const international = await service.addUser(admin, 'viewer', { email: 'ida@bücher.example' })

test.for([
  ['KIM.SKILL@COMPANY.EXAMPLE', skilled],
  ['IDA@BÜCHER.example', international],
  ['ida@bücher\u3002example', international],
] as const)('a different spelling of an email address is the same account: %s', async ([email, person]) => {
  const { user } = await service.loginAs({ ...person, email })
  expect([user.id, user.email]).toEqual([person.userId, person.email.replace('bücher', 'xn--bcher-kva')])
})

test.for([
  ['dotless i', 'k\u0131m.skill@company.example'],
  ['Kelvin sign', '\u212aim.skill@company.example'],
  ['full-width at sign', 'kim.skill\uff20company.example'],
  ['leading space', ' kim.skill@company.example'],
  ['quoted local part', '"kim.skill"@company.example'],
  ['trailing dot', 'kim.skill@company.example.'],
  ['255 characters', `${'k'.repeat(239)}@company.example`],
  // Node's conversion of Unicode domains stops at some characters, and decodes others.
  ['path', 'ida@bücher.example/x'],
  ['encoded dot', 'ida@bücher.example%2e'],
] as const)('a lookalike email address is refused: %s (ASVS 2.2.1)', async ([, email]) => {
  expectField(await service.login({ ...admin, email }), '/email')
})

test('an email address is compared exactly', async () => {
  for (const email of ['kim.skill@\u0441ompany.example', 'kim.skill+tag@company.example'])
    expectProblem(await service.login({ ...skilled, email }), [401, 'invalid_credentials'])
})

test.for([
  ['NFC', 'NFD'],
  ['NFD', 'NFC'],
])('a password chosen in %s can be typed in %s (RFC 8265, section 4.2)', async ([chosen, given]) => {
  // 128 characters, three times as many in NFD.
  const password = 'ǖǘǚǜȫṻấở'.repeat(16).slice(1).concat('x')
  const user = await service.addUser(admin, 'viewer', { password: password.normalize(chosen) })
  expect((await service.login({ ...user, password: password.normalize(given) })).status).toBe(200)
})

test.for([
  ['128 characters', 'qvtzkwpj'.repeat(16)],
  ['128 emoji, two code units each', '🐘🦊🐻🐼🐨🐯🦁🐮'.repeat(16)],
  ['spaces at its ends', '  spaces at both ends  '],
  ['emoji joined to one sign', '👩‍👩‍👧‍👦 family of four'],
  ['quotes and control characters', `'"\\\t\u0001;--<b>%s$1`],
])('a password of %s is verified exactly (ASVS 6.2.5, 6.2.8, 6.2.9)', async ([, password = '']) => {
  const user = await service.addUser(admin, 'viewer', { password })
  expect((await service.login(user)).status).toBe(200)
  const points = [...password]
  const variants = [
    points.slice(0, -1).join(''),
    points.slice(1).join(''),
    password.trim(),
    password.toUpperCase(),
    password.replaceAll('\u200d', ''),
  ]
  for (const variant of variants.filter((variant) => variant !== password))
    expect((await service.login({ ...user, password: variant })).status).toBe(401)
})

test.for([
  ['129 characters', 'a'.repeat(129)],
  ['no character', ''],
])('a password of %s is refused before hashing (ASVS 15.1.3, 15.2.2)', async ([, password = '']) => {
  const user = await service.addUser(admin)
  hasher.verified = 0
  const answer = await service.login({ ...user, password })
  expectField(answer, '/password')
  expect(hasher.verified).toBe(0)
  // Counted like any request without a credential, not as an attempt.
  expect(answer.headers['ratelimit']).toMatch(/^"anonymous"/)
  const emails = (await refusalsOf(user.companyId)).map(({ last_email: email }) => email)
  expect(emails).not.toContain(user.email)
})

test('concurrent sign-ins renew a hash with outdated parameters (ASVS 11.4.2)', async () => {
  const user = await service.addUser(admin)
  const outdated = await hash(PASSWORD, { memoryCost: 16, timeCost: 1, parallelism: 1 })
  const users = service.db.updateTable('users').where('user_id', '=', user.userId)
  await users.set({ password_hash: outdated }).execute()
  const wrong = { ...user, password: 'not the password' }
  expect((await service.login(wrong)).status).toBe(401)
  expect(await storedHash(user)).toBe(outdated)
  const answers = await Promise.all(times(8, () => service.login(user)))
  expect(answers.map(({ status }) => status)).toEqual(times(8, () => 200))
  const renewed = await storedHash(user)
  expect(renewed).toMatch(/^\$argon2id\$v=19\$m=8,t=1,p=1\$/)
  await service.loginAs(user)
  expect(await storedHash(user)).toBe(renewed)
  expect((await service.login(wrong)).status).toBe(401)
})

/** Signs in eight times concurrently, and acts once `after` of them have a response. */
async function signInDuring(person: Person, after: number, act: () => Promise<unknown>) {
  const acting = Promise.withResolvers<unknown>()
  let answered = 0
  const actInTime = () => {
    if (answered === after) acting.resolve(act())
    answered += 1
  }
  actInTime()
  const signingIn = times(8, async (index) => {
    const answer = await service.login(person, index % 2 === 0 ? { headers: COOKIE_MODE } : {})
    actInTime()
    return answer
  })
  await acting.promise
  return await Promise.all(signingIn)
}

async function replacePassword({ userId }: Person) {
  const password_hash = await service.context.hasher.hash('another password')
  const ending = { ended_at: new Date(service.clock.now()), end_reason: 'password_changed' } as const
  await service.db.transaction().execute(async (tx) => {
    await tx.updateTable('users').set({ password_hash }).where('user_id', '=', userId).execute()
    const live = tx.updateTable('sessions').where('user_id', '=', userId).where('ended_at', 'is', null)
    await live.set(ending).execute()
  })
}

test.for<[what: string, act: (person: Person) => Promise<unknown>]>([
  ['the user is disabled', disable],
  ['the company is suspended', suspend],
  ['the password is replaced, which ends the sessions', replacePassword],
])('no session remains if %s during sign-in (ASVS 7.4.2, 15.4.2)', async ([, act]) => {
  for (const after of [0, 0, 1, 2, 4, 6]) {
    const person = await service.addUser(await service.addCompany())
    const answers = await signInDuring(person, after, () => act(person))
    expect(await countLive(service, person)).toBe(0)
    for (const { status, body } of answers) {
      if (status !== 200) expect([status, body.code]).toEqual([401, 'invalid_credentials'])
      else if (body.accessToken) {
        expect((await service.getSession({ token: body.accessToken })).body.code).toBe('session_ended')
      }
    }
  }
})

test('no session opens if the email changes during sign-in (ASVS 7.4.2, 15.4.2)', async () => {
  for (const mode of ['token', 'cookie']) {
    const person = await service.addUser(admin)
    hasher.beforeVerifying = async () => {
      hasher.beforeVerifying = undefined
      const change = { email: `new.${person.email}` }
      await service.db.updateTable('users').set(change).where('user_id', '=', person.userId).execute()
    }
    const answer = await service.login(person, { headers: { 'x-session-mode': mode } })
    expectProblem(answer, [401, 'invalid_credentials'])
    expect(await countLive(service, person)).toBe(0)
  }
})

test('a permission that a later release added is returned like the others', async () => {
  const { companyId, email, password } = await service.addUser(admin, 'analyst')
  const set = (permissions: string[]) =>
    service.db.updateTable('roles').set({ permissions }).where('role', '=', 'analyst').execute()
  const { permissions: known } = await service.db
    .selectFrom('roles')
    .select('permissions')
    .where('role', '=', 'analyst')
    .executeTakeFirstOrThrow()
  onTestFinished(async () => void (await set(known)))
  await set([...known, 'cases:close'])
  // Not through `service.call`, which refuses values that the OpenAPI document does not list.
  for (const mode of ['token', 'cookie']) {
    const response = await fetch(`${service.addresses[0]}/api/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-session-mode': mode },
      body: JSON.stringify({ companyId, email, password }),
    })
    expect([mode, response.status]).toEqual([mode, 200])
    expect(await response.text()).toContain('"cases:close"')
  }
})
