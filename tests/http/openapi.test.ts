import { describe, expect, test } from 'vitest'
import { catalogue } from '../../src/errors.ts'
import { document, operationOf, operations, schemas } from './document.ts'

/** Readers need no other document (ASVS 2.1.1, 2.1.3). Every response is compared with it in `support/contract.ts`. */

test('the OpenAPI document is version 3.1 and has every area of the product', () => {
  expect(document.openapi).toMatch(/^3\.1\./)
  expect(document.info.version).toBe('1.1')
  expect(document.servers).toEqual([{ url: 'https://auth.gatehouse.test/api' }])
  expect(operations.map(({ name }) => name)).toEqual(
    expect.arrayContaining([
      'POST /auth/login',
      'POST /auth/refresh',
      'POST /auth/logout',
      'POST /auth/webhook-secret/status',
      'POST /auth/webhook-secret/regenerate',
      'POST /events/ingest',
      'GET /auth/session',
      'GET /.well-known/jwks.json',
      'GET /openapi.json',
    ]),
  )
})

test.for(operations)('the document states who can call $name and how it ends', ({ operation }) => {
  expect(operation.operationId).toMatch(/^[a-z][A-Za-z]+$/)
  expect(operation.summary).toMatch(/\S/)
  const tags = document.tags.map(({ name }: { name: string }) => name)
  expect(operation.tags.filter((tag) => tags.includes(tag))).toHaveLength(1)
  const schemes = Object.keys(document.components.securitySchemes)
  for (const one of operation.security) expect(schemes).toEqual(expect.arrayContaining(Object.keys(one)))
  const statuses = Object.keys(operation.responses)
  expect(statuses).toEqual(expect.arrayContaining(['400', '408', '429', '431', '500', '503']))
  // A session that is renewed by cookie has no body to return.
  const successes = operation.operationId === 'reauthenticate' ? 2 : 1
  expect(statuses.filter((status) => status.startsWith('2'))).toHaveLength(successes)
  const signIns = ['login', 'completeLogin', 'loginByPasskey']
  const needsCredential = operation.security.length > 0 || signIns.includes(operation.operationId)
  expect(statuses.includes('401')).toBe(needsCredential)
  for (const [status, { description, headers, content }] of Object.entries(operation.responses)) {
    expect(description).toMatch(/\S/)
    expect(headers).toHaveProperty('X-Request-Id')
    if (status.startsWith('2')) expect(headers).toHaveProperty('RateLimit')
    else expect(content).toEqual({ 'application/problem+json': expect.anything() })
    if (status === '401') expect(headers).toHaveProperty('WWW-Authenticate')
    if (status === '429' || status === '503') expect(headers).toHaveProperty('Retry-After')
  }
})

test('the document states which bodies and headers are required', () => {
  const bodies = operations.map(({ operation: { operationId, requestBody } }) => [
    operationId,
    requestBody ? (requestBody.required ? 'required' : 'optional') : 'none',
  ])
  expect(Object.fromEntries(bodies)).toMatchObject({
    login: 'required',
    refresh: 'none',
    logout: 'none',
    getSession: 'none',
    getSigningSecretStatus: 'none',
    regenerateSigningSecret: 'optional',
    ingestEvents: 'required',
  })
  expect(operationOf('ingestEvents').parameters.map(({ name, required }) => [name, required])).toEqual([
    ['x-company-id', true],
    ['webhook-id', true],
    ['webhook-timestamp', true],
  ])
  for (const { name, operation } of operations) {
    const takesCookie = operation.security.some((schemes) => 'sessionCookie' in schemes)
    const namesSession = operation.parameters.some((one) => one.name === 'x-session-id')
    expect([name, namesSession]).toEqual([name, takesCookie])
  }
})

test('request and response bodies are named schemas', () => {
  for (const { name, operation } of operations) {
    const contents = [operation.requestBody, ...Object.values(operation.responses)].map((one) => one?.content)
    const media = contents.flatMap((content) =>
      // Lines of text have no fields to name.
      Object.entries(content ?? {}).flatMap(([type, body]) => (type === 'text/csv' ? [] : [body])),
    )
    for (const { schema } of media) {
      if (operation.operationId === 'getOpenApi' && schema['type'] === 'object') continue
      for (const { $ref } of schema.anyOf ?? [schema])
        expect([name, $ref]).toEqual([name, expect.stringMatching(/^#\/components\/schemas\/[A-Z]/)])
    }
  }
})

test('every operation and parameter has a description and an example', () => {
  for (const { name, operation } of operations) {
    expect([name, operation.description]).toEqual([name, expect.stringMatching(/\S/)])
    for (const { name: parameter, description, example, schema } of operation.parameters) {
      const shown = example ?? schema.examples
      expect([name, parameter, description, shown]).toEqual([
        name,
        parameter,
        expect.any(String),
        expect.anything(),
      ])
    }
    const successes = Object.entries(operation.responses).filter(([status]) => status < '300')
    for (const one of [operation.requestBody, ...successes.map(([, response]) => response)]) {
      for (const { example } of Object.values(one?.content ?? {}))
        expect([name, example]).toEqual([name, expect.anything()])
    }
  }
})

type Schema = { $ref?: string } & Record<string, unknown>

/** The schemas of all fields, at every depth, with where each is. */
function* fieldsIn(value: unknown, place = '#'): Generator<[place: string, schema: Schema]> {
  if (typeof value !== 'object' || value === null) return
  for (const [key, member] of Object.entries(value)) {
    if (key === 'examples' || key === 'example') continue
    const inner = `${place}/${key}`
    if (key === 'properties') {
      for (const [name, schema] of Object.entries<Schema>(member)) yield [`${inner}/${name}`, schema]
    }
    yield* fieldsIn(member, inner)
  }
}

test('every field at every depth has a description and an example', () => {
  const fields = [...fieldsIn(document)]
  expect(fields.length).toBeGreaterThan(80)
  for (const [place, schema] of fields) {
    const known = { ...schema, ...(schema.$ref && schemas[schema.$ref.split('/').at(-1) ?? '']) }
    expect([place, known.description]).toEqual([place, expect.stringMatching(/\S/)])
    const isComposed = schema.$ref ?? schema['items'] ?? schema['anyOf'] ?? schema['properties']
    if (!isComposed) expect([place, schema['examples']]).toEqual([place, [expect.anything()]])
  }
})

/** Every object of the document. */
function* objectsIn(value: unknown): Generator<object> {
  if (typeof value !== 'object' || value === null) return
  yield value
  for (const member of Object.values(value)) yield* objectsIn(member)
}

test('every pattern has its rule in words too', () => {
  const patterns = [...objectsIn(document)].filter((one) => 'pattern' in one)
  expect(patterns.length).toBeGreaterThan(10)
  for (const schema of patterns)
    expect(schema).toEqual(expect.objectContaining({ 'x-must': expect.stringMatching(/^must /) }))
})

test('the document tells the two responses of a sign-in apart', () => {
  const [answer] = Object.values(operationOf('login').responses['200']?.content ?? {})
  expect(answer?.schema.anyOf).toEqual([
    { $ref: '#/components/schemas/TokenReply' },
    { $ref: '#/components/schemas/SessionReply' },
  ])
  expect(answer?.schema['description']).toContain('X-Session-Mode')
  expect(schemas.TokenReply.required).toEqual(expect.arrayContaining(['accessToken', 'refreshToken']))
  expect(Object.keys(schemas.SessionReply.properties)).not.toContain('accessToken')
})

describe('examples:', () => {
  test('every code of a refusal has an example with its status', () => {
    for (const { name, operation } of operations) {
      for (const [status, { description, content }] of Object.entries(operation.responses)) {
        if (status < '400') continue
        const codes = Array.from(description.matchAll(/\(`(\w+)`\)/g), ([, code = '']) => code)
        const examples = content?.['application/problem+json']?.examples ?? {}
        expect([name, status, Object.keys(examples)]).toEqual([name, status, codes])
        for (const code of codes) {
          expect(examples[code]).toEqual({ $ref: `#/components/examples/${code}` })
          expect(document.components.examples[code].value).toMatchObject({ code, status: Number(status) })
        }
      }
    }
    expect(schemas.Problem.properties.code.enum).toEqual(Object.keys(catalogue))
  })

  const bodies = operations.flatMap(({ path, operation }) =>
    Object.values(operation.requestBody?.content ?? {}).map(({ example = {} }) => ({ path, example })),
  )

  test('an example body names its company once', () => {
    const named = bodies.filter(({ example }) => 'company' in example || 'companyId' in example)
    expect(named.map(({ path }) => path)).toEqual([
      '/auth/login',
      '/auth/verify-email/resend',
      '/auth/password/forgot',
    ])
    for (const { example } of named) expect(example).not.toHaveProperty('companyId')
  })

  test('an example body has the kind of token that its route takes', () => {
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
})
