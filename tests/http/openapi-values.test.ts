import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { type Answer, useSharedService } from '../support/test-service.ts'
import { document, type Operation, operations, schemas } from './document.ts'

/** The service must do what its OpenAPI document states in examples, bounds, enumerations, and tables (ASVS 2.1.1). */

const { service } = await useSharedService()
const company = await service.addCompany()
const secret = await service.newSecret(company)
// A second company, because examples end sessions of the first one.
const other = await service.addCompany()
const { accessToken: token, refreshToken } = await service.loginAs(other)

/** The password that the examples use. */
const password = 'correct horse battery staple'

/** Issued by the service, a mailbox, or an authenticator, or valid only with such a credential. No document can contain these. */
const ISSUED = [
  '/headers/gatehouse-client-ip',
  '/token',
  '/challenge',
  '/code',
  '/mailCode',
  '/response',
  '/querystring/cursor',
]

function valuesIn(place: string, { parameters }: Operation): Record<string, string> {
  const there = parameters.filter((parameter) => parameter.in === place)
  return Object.fromEntries(
    there.map(({ name, example, schema }) => [name, String(example ?? schema.examples?.[0])]),
  )
}

const isCredentialOptional = ({ security }: Operation) =>
  security.some((schemes) => Object.keys(schemes).length === 0)

async function sendExample(path: string, method: string, operation: Operation): Promise<Answer> {
  const json = operation.requestBody?.content['application/json']?.example
  if (operation.operationId === 'ingestEvents') return await service.send(company.companyId, secret, json)
  const inPath = valuesIn('path', operation)
  const query = new URLSearchParams(valuesIn('query', operation)).toString()
  return await service.call(`${path.replace(/\{(\w+)\}/g, (_, name) => inPath[name] ?? '')}?${query}`, {
    method,
    headers: valuesIn('header', operation),
    ...(operation.security.length > 0 &&
      !isCredentialOptional(operation) && { token: await tokenFor(operation, JSON.stringify({ json })) }),
    ...(json && { json }),
  })
}

/** Uses a new session, because examples end sessions. */
async function tokenFor({ operationId }: Operation, example: string): Promise<string> {
  // Adds an admin only if the example names the password or deletes the account, because all other admins get an email about it.
  const isNew = example.includes(password) || operationId === 'deleteAccount'
  const signedIn = await service.loginAs(
    isNew ? await service.addUser(company, 'admin', { password }) : company,
  )
  return operationId === 'refresh' ? signedIn.refreshToken : signedIn.accessToken
}

test.for(operations)('$name accepts its own example', async ({ path, method, operation }) => {
  const { status, body } = await sendExample(path, method, operation)
  expect(['missing_credentials', 'invalid_token', 'session_ended']).not.toContain(body?.code)
  if (body?.code !== 'invalid_request') return expect(status).not.toBe(400)
  for (const { path: at } of body.errors) expect(ISSUED).toContain(at)
})

const member = { name: 'Worker', role: 'viewer' }
const withRole = { json: { ...member, role: 'admin' } }
const withDash = { json: { ...member, assignments: ['a', '-'] } }
const withSpace = { token: refreshToken, headers: { 'idempotency-key': 'a b' } }
const ruleOfKeys = 'must be 1 to 128 characters from A-Z, a-z, 0-9, _, and -'
const ruleOfAssignments =
  'must have 1 to 100 characters of A-Z a-z 0-9 : . _ / - and start with a letter or digit'
test.for([
  ['/auth/audit?limit=1.5', { method: 'GET' }, '/querystring/limit', 'must be a whole number from 1 to 100'],
  ['/auth/members', withDash, '/assignments/1', ruleOfAssignments],
  ['/auth/members', withRole, '/role', 'must be one of analyst, auditor, developer, viewer'],
  ['/auth/members?status=gone', { method: 'GET' }, '/querystring/status', 'must be one of active, disabled'],
  ['/auth/members?kind=robot', { method: 'GET' }, '/querystring/kind', 'must be one of person, service'],
  ['/auth/members?secondFactor=1', { method: 'GET' }, '/querystring/secondFactor', 'must be one of yes, no'],
  ['/auth/members', { json: { ...member, name: '' } }, '/name', 'must have at least 1 character'],
  ['/auth/account', { method: 'PATCH', json: { name: 1 } }, '/name', 'must be a string'],
  ['/auth/refresh', withSpace, '/headers/idempotency-key', ruleOfKeys],
] as const)("a refusal by %s explains the field's rule", async ([path, options, at, message]) => {
  const { body } = await service.call(path, { token, ...options })
  expect(body.errors).toEqual([{ path: at, message }])
})

test.for(['0x10', '1e1', '%2B5', '%20', '5%20', '07', '1.0'])(
  '%s is not a whole number in a query',
  async (text) => {
    const { status, body } = await service.call(`/auth/audit?limit=${text}`, { method: 'GET', token })
    expect([status, body.errors?.[0].path]).toEqual([400, '/querystring/limit'])
  },
)

test('numbers in queries have the bounds of the OpenAPI document', async () => {
  const numbers = operations.flatMap(({ path, operation }) =>
    operation.parameters
      .filter(({ name }) => name === 'limit' || name === 'days')
      .map((parameter) => ({ path, ...parameter })),
  )
  expect(numbers.length).toBeGreaterThanOrEqual(4)
  for (const { path, name, schema, example } of numbers) {
    const { type, minimum, maximum } = schema
    expect([type, minimum, typeof example]).toEqual(['integer', 1, 'number'])
    const statusOf = async (value: number) =>
      (await service.call(`${path}?${name}=${value}`, { method: 'GET', token })).status
    const values = [1, Number(maximum), 0, Number(maximum) + 1]
    expect([path, ...(await Promise.all(values.map(statusOf)))]).toEqual([path, 200, 200, 400, 400])
  }
})

const roles = await service.db.selectFrom('roles').select(['role', 'permissions']).execute()
const plans = await service.db.selectFrom('plans').select(['plan', 'features']).execute()

test("the OpenAPI document's enumerations match the database", async () => {
  const names = roles.map(({ role }) => role).sort()
  for (const { properties } of [schemas.User, schemas.MemberChangeBody])
    expect(properties.role.enum.toSorted()).toEqual(names)
  expect(schemas.Subscription.properties.plan.enum.toSorted()).toEqual(plans.map(({ plan }) => plan).sort())
  const permissions = schemas.TokenReply.properties.permissions.items.enum
  for (const role of roles) expect(permissions).toEqual(expect.arrayContaining(role.permissions))
  const { rows: checks } = await sql<{ definition: string }>`
    select pg_get_constraintdef(oid) as definition from pg_constraint
    where conrelid = 'sessions'::regclass and contype = 'c'`.execute(service.db)
  const text = checks.map(({ definition }) => definition).find((one) => one.includes("'refresh_reuse'")) ?? ''
  const reasons = Array.from(text.matchAll(/'([a-z_]+)'/g), ([, word]) => word)
  expect(reasons).toEqual(expect.arrayContaining(['logout', 'superseded', 'user_deleted']))
  expect(schemas.Problem.properties.reason.enum).toEqual(expect.arrayContaining(reasons))
})

test("the OpenAPI document's roles and plans match the database", () => {
  const [, chapter = ''] = document.info.description.split('## Roles and plans\n')
  const rows: RegExpMatchArray[] = [...chapter.split('\n## ', 1)[0].matchAll(/^\| `([^`]+)` \| (.+) \|$/gm)]
  const words = rows.map(([, name, cell]) => [name, cell?.match(/[\w:-]+/g)?.toSorted()])
  const expected = [
    ...roles.map(({ role, permissions }) => [role, permissions.toSorted()]),
    ...plans.map(({ plan, features }) => [plan, features.toSorted()]),
  ]
  expect(Object.fromEntries(words)).toEqual(Object.fromEntries(expected))
})
