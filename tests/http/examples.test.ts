import { expect, test } from 'vitest'
import { type Answer, useSharedService } from '../support/test-service.ts'

/** What the OpenAPI document shows as a request, sent as it is shown. */

interface Operation {
  operationId: string
  parameters?: { in: string; name: string; example?: unknown; schema?: { examples?: unknown[] } }[]
  requestBody?: { content: Record<string, { example: object }> }
}

const { service } = await useSharedService()
const company = await service.addCompany()
const secret = await service.newSecret(company)
const { body: document } = await service.call('/openapi.json', { method: 'GET' })
const operations = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
)
const bodies = operations.flatMap(({ path, operation }) =>
  Object.values(operation.requestBody?.content ?? {}).map(({ example }) => ({ path, example })),
)

/** Of the examples. */
const PASSWORD = 'a password of her own'

/** What the service, a mailbox, or an authenticator issues: no document can know it. */
const ISSUED = ['/token', '/challenge', '/code', '/mailCode', '/response', '/querystring/cursor']

/** The examples of parameters in one place, as text. */
function valuesIn(place: string, { parameters = [] }: Operation): Record<string, string> {
  const there = parameters.filter((parameter) => parameter.in === place)
  return Object.fromEntries(
    there.map(({ name, example, schema }) => [name, String(example ?? schema?.examples?.[0])]),
  )
}

async function send(path: string, method: string, operation: Operation): Promise<Answer> {
  const json = operation.requestBody?.content['application/json']?.example
  if (operation.operationId === 'ingestEvents') return await service.send(company.companyId, secret, json)
  // A new company for each, because some end sessions or delete the account.
  const owner = await service.addCompany()
  const needsPassword = JSON.stringify(json ?? '').includes(PASSWORD)
  const admin = needsPassword ? await service.addUser(owner, 'admin', { password: PASSWORD }) : owner
  const { accessToken, refreshToken } = await service.loginAs(admin)
  const inPath = valuesIn('path', operation)
  const query = new URLSearchParams(valuesIn('query', operation)).toString()
  return await service.call(`${path.replace(/\{(\w+)\}/g, (_, name) => inPath[name] ?? '')}?${query}`, {
    method,
    token: operation.operationId === 'refresh' ? refreshToken : accessToken,
    headers: valuesIn('header', operation),
    ...(json && { json }),
  })
}

test.for(operations)(
  '$operation.operationId accepts its own example',
  async ({ path, method, operation }) => {
    const { status, body } = await send(path, method, operation)
    if (body?.code !== 'invalid_request') return expect(status).not.toBe(400)
    for (const { path: at } of body.errors) expect(ISSUED).toContain(at)
  },
)

test('every example names its company at most once', () => {
  const named = bodies.filter(({ example }) => 'company' in example || 'companyId' in example)
  expect(named.map(({ path }) => path)).toEqual([
    '/auth/login',
    '/auth/verify-email/resend',
    '/auth/password/forgot',
  ])
  for (const { example } of named) expect(example).not.toHaveProperty('companyId')
})

test('every example has the kind of token that its endpoint takes', () => {
  const prefixes = bodies.flatMap(({ path, example }) =>
    'token' in example ? [[path, String(example.token).split('_')[0]]] : [],
  )
  expect(Object.fromEntries(prefixes)).toEqual({
    '/auth/verify-email': 'verify',
    '/auth/password/reset': 'reset',
    '/auth/password/reset/preview': 'reset',
    '/auth/invitations/preview': 'invite',
    '/auth/invitations/accept': 'invite',
    '/auth/email/confirm': 'confirm',
    '/auth/undo': 'undo',
  })
})

test('the example of a sign-in returns the tokens that its response shows', async () => {
  const login = operations.find(({ operation }) => operation.operationId === 'login')
  expect(login && valuesIn('header', login.operation)).toEqual({ 'x-session-mode': 'token' })
})
