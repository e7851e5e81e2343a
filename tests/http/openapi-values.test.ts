import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { catalogue } from '../../src/errors.ts'
import { type Answer, openTestService, useSharedService } from '../support/test-service.ts'
import { document, type Operation, operationOf, operations, schemas } from './document.ts'

/** The service does what its OpenAPI document states: examples, bounds, enumerations, and tables (ASVS 2.1.1). */

const { service } = await useSharedService()
const company = await service.addCompany()
const secret = await service.newSecret(company)
// Examples end sessions of the first company.
const other = await service.addCompany()
const { accessToken: token, refreshToken } = await service.loginAs(other)

/** The password of the examples. */
const password = 'a password of her own'

/** Values that the service, a mailbox, or an authenticator issues: no document can know them. */
const ISSUED = ['/token', '/challenge', '/code', '/mailCode', '/response', '/querystring/cursor']

/** The examples of parameters in one place, as text. */
function valuesIn(place: string, { parameters }: Operation): Record<string, string> {
  const there = parameters.filter((parameter) => parameter.in === place)
  return Object.fromEntries(
    there.map(({ name, example, schema }) => [name, String(example ?? schema.examples?.[0])]),
  )
}

async function sendExample(path: string, method: string, operation: Operation): Promise<Answer> {
  const json = operation.requestBody?.content['application/json']?.example
  if (operation.operationId === 'ingestEvents') return await service.send(company.companyId, secret, json)
  // Few examples name the password. Each new admin is announced to all others by email.
  const namesPassword = JSON.stringify({ json }).includes(password)
  const person = namesPassword ? await service.addUser(company, 'admin', { password }) : company
  const signedIn = await service.loginAs(person)
  const inPath = valuesIn('path', operation)
  const query = new URLSearchParams(valuesIn('query', operation)).toString()
  return await service.call(`${path.replace(/\{(\w+)\}/g, (_, name) => inPath[name] ?? '')}?${query}`, {
    method,
    token: operation.operationId === 'refresh' ? signedIn.refreshToken : signedIn.accessToken,
    headers: valuesIn('header', operation),
    ...(json && { json }),
  })
}

test.for(operations)('$name takes its own example', async ({ path, method, operation }) => {
  const { status, body } = await sendExample(path, method, operation)
  if (body?.code !== 'invalid_request') return expect(status).not.toBe(400)
  for (const { path: at } of body.errors) expect(ISSUED).toContain(at)
})

test('the example of a sign-in asks for the tokens that its response shows', () => {
  expect(valuesIn('header', operationOf('login'))).toEqual({ 'x-session-mode': 'token' })
})

test.for([
  [
    '/auth/audit/daily?days=91',
    { method: 'GET' },
    '/querystring/days',
    'must be a whole number from 1 to 90',
  ],
  ['/auth/audit?limit=1.5', { method: 'GET' }, '/querystring/limit', 'must be a whole number from 1 to 100'],
  [
    '/auth/audit?actor=ada',
    { method: 'GET' },
    '/querystring/actor',
    'must be the id of a member, or operator',
  ],
  [
    '/auth/members',
    { json: { name: 'Worker', role: 'viewer', assignments: ['a', '-'] } },
    '/assignments/1',
    'must be 1 to 100 of A-Z a-z 0-9 : . _ / - and begin with a letter or digit',
  ],
  [
    '/auth/members',
    { json: { name: 'Worker', role: 'admin' } },
    '/role',
    'must be one of analyst, developer, viewer',
  ],
  [
    '/auth/refresh',
    { token: refreshToken, headers: { 'idempotency-key': 'a b' } },
    '/headers/idempotency-key',
    'must be 1 to 128 of A-Z a-z 0-9 _ -',
  ],
] as const)('a refusal of %s states the rule in words', async ([path, options, at, message]) => {
  const { body } = await service.call(path, { token, ...options })
  expect(body.errors).toEqual([{ path: at, message }])
})

test('roles and assignments of members have the bounds of the document', async () => {
  const { ServiceMemberBody, MemberChangeBody } = schemas
  const roles = schemas.User.properties.role.enum
  for (const role of roles) {
    const { status } = await service.call('/auth/members', { token, json: { name: 'Worker', role } })
    const isListed = ServiceMemberBody.properties.role.enum.includes(role)
    expect([role, status]).toEqual([role, isListed ? 201 : 400])
  }
  expect(MemberChangeBody.properties.role.enum).toEqual(roles)
  const { userId } = await service.addUser(other)
  const change = async (assignments: string[]) => {
    const options = { method: 'PATCH', token, json: { assignments } }
    return (await service.call(`/auth/members/${userId}`, options)).status
  }
  const { maxItems, uniqueItems, items } = MemberChangeBody.properties.assignments
  const some = (count: number) => Array.from({ length: count }, (_, index) => `queue:${index}`)
  expect([await change([]), await change(some(maxItems)), await change(some(maxItems + 1))]).toEqual([
    200, 200, 400,
  ])
  expect([uniqueItems, await change(['a', 'a'])]).toEqual([true, 400])
  const { minLength, maxLength } = items
  expect([await change(['a'.repeat(maxLength)]), await change(['a'.repeat(maxLength + 1)])]).toEqual([
    200, 400,
  ])
  expect([minLength, await change([''])]).toEqual([1, 400])
})

test('numbers in queries have the bounds of the document', async () => {
  const numbers = operations.flatMap(({ path, operation }) =>
    operation.parameters
      .filter(({ name }) => name === 'limit' || name === 'days')
      .map((parameter) => ({ path, ...parameter })),
  )
  expect(numbers.length).toBeGreaterThanOrEqual(4)
  for (const { path, name, schema, example } of numbers) {
    const { type, minimum, maximum, default: usual } = schema
    expect([type, minimum, typeof usual, typeof example]).toEqual(['integer', 1, 'number', 'number'])
    const statusOf = async (value: number) =>
      (await service.call(`${path}?${name}=${value}`, { method: 'GET', token })).status
    const values = [1, Number(maximum), 0, Number(maximum) + 1]
    expect([path, ...(await Promise.all(values.map(statusOf)))]).toEqual([path, 200, 200, 400, 400])
  }
})

test('enumerations of the document are those of the database', async () => {
  const roles = await service.db.selectFrom('roles').select(['role', 'permissions']).execute()
  const plans = await service.db.selectFrom('plans').select('plan').execute()
  expect(schemas.User.properties.role.enum.toSorted()).toEqual(roles.map(({ role }) => role).sort())
  expect(schemas.Subscription.properties.plan.enum.toSorted()).toEqual(plans.map(({ plan }) => plan).sort())
  for (const { permissions } of roles) {
    const listed = schemas.TokenReply.properties.permissions.items.enum
    expect(listed).toEqual(expect.arrayContaining(permissions))
  }
  const { rows: checks } = await sql<{ definition: string }>`
    select pg_get_constraintdef(oid) as definition from pg_constraint
    where conrelid = 'sessions'::regclass and contype = 'c'`.execute(service.db)
  const { reason } = schemas.Problem.properties
  for (const one of ['logout', 'superseded', 'user_deleted']) expect(reason.enum).toContain(one)
  const known = checks.map(({ definition }) => definition).filter((text) => text.includes("'refresh_reuse'"))
  for (const [, word] of known.join().matchAll(/'([a-z_]+)'/g)) expect(reason.enum).toContain(word)
})

/** The rows of a table of the description, by their first cell. */
function tableOf(chapter: string): Record<string, string[]> {
  const [, text = ''] = document.info.description.split(`## ${chapter}\n`)
  const rows = text.split('\n## ', 1)[0].matchAll(/^\| `([^`]+)` \| (.+) \|$/gm)
  return Object.fromEntries(
    Array.from(rows, ([, name = '', cells = '']: RegExpExecArray) => [name, cells.split(' | ')]),
  )
}

test('the table of errors has a meaning for each code', () => {
  const rows = tableOf('Errors')
  for (const [code, [status]] of Object.entries(catalogue)) {
    const expected = [String(status), expect.stringMatching(/^[A-Z].+\. [A-Z].+\.$/)]
    expect([code, rows[code]]).toEqual([code, expected])
  }
  expect(Object.keys(rows)).toHaveLength(Object.keys(catalogue).length)
})

test('the table of roles and plans is that of the database', async () => {
  const rows = tableOf('Roles and plans')
  const wordsOf = (name: string) => rows[name]?.[0]?.match(/[\w:-]+/g)?.toSorted()
  const roles = await service.db.selectFrom('roles').select(['role', 'permissions']).execute()
  const plans = await service.db.selectFrom('plans').select(['plan', 'features']).execute()
  for (const { role, permissions } of roles)
    expect([role, wordsOf(role)]).toEqual([role, permissions.toSorted()])
  for (const { plan, features } of plans) expect([plan, wordsOf(plan)]).toEqual([plan, features.toSorted()])
  expect(Object.keys(rows)).toHaveLength(roles.length + plans.length)
})

test('limits, lifetimes, and password rules are those of this service', async () => {
  const custom = await openTestService({
    env: {
      PUBLIC_URL: 'https://auth.gatehouse.test',
      RATE_LIMIT_SCALE: '1',
      ACCESS_TOKEN_TTL_SECONDS: '123',
      LIMIT_REFRESH: '17/61',
    },
  })
  const { info, servers } = (await custom.call('/openapi.json', { method: 'GET' })).body
  expect(servers).toEqual([{ url: 'https://auth.gatehouse.test/api' }])
  for (const { name, max, windowSeconds } of Object.values(custom.config.limits))
    expect(info.description).toContain(`| \`${name}\` | ${max} in ${windowSeconds} s |`)
  for (const text of ['123 s', '17 in 61 s', '8 to 128 characters', '100,000,000 guesses', '72 h'])
    expect(info.description).toContain(text)
})
