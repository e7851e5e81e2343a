import { expect, test } from 'vitest'
import { catalogue } from '../../src/errors.ts'
import { document, operationOf, operations, schemas } from './document.ts'

/** The document must be complete (ASVS 2.1.1, 2.1.3). `support/contract.ts` compares every response with it. */

test('the OpenAPI document is version 3.1 of this interface at PUBLIC_URL', () => {
  expect(document.openapi).toMatch(/^3\.1\./)
  expect(document.info.version).toBe('1.1')
  expect(document.servers).toEqual([{ url: 'https://auth.gatehouse.test/api' }])
})

test.for(operations)(
  'the OpenAPI document states who can call $name and its outcomes (ASVS 6.1.3, 8.1.1)',
  ({ operation }) => {
    const { operationId, tags, security, responses, parameters } = operation
    const known = document.tags.map(({ name }: { name: string }) => name)
    expect(tags.filter((tag) => known.includes(tag))).toHaveLength(1)
    const takesCookie = security.some((schemes) => 'sessionCookie' in schemes)
    expect(parameters.some(({ name }) => name === 'x-session-id')).toBe(takesCookie)
    const statuses = Object.keys(responses)
    expect(statuses).toEqual(expect.arrayContaining(['400', '408', '429', '431', '500', '503']))
    // A session that is renewed by cookie has no body to return.
    const successes = operationId === 'reauthenticate' ? 2 : 1
    expect(statuses.filter((status) => status.startsWith('2'))).toHaveLength(successes)
    const signIns = ['login', 'completeLogin', 'loginByPasskey']
    expect(statuses.includes('401')).toBe(security.length > 0 || signIns.includes(operationId))
    for (const [status, { description, headers, content }] of Object.entries(responses)) {
      expect(description).toMatch(/\S/)
      expect(headers).toHaveProperty('X-Request-Id')
      if (status.startsWith('2')) expect(headers).toHaveProperty('RateLimit')
      else expect(content).toEqual({ 'application/problem+json': expect.anything() })
      if (status === '401') expect(headers).toHaveProperty('WWW-Authenticate')
      if (status === '429' || status === '503') expect(headers).toHaveProperty('Retry-After')
    }
  },
)

test('the OpenAPI document states which bodies are optional, and which headers required', () => {
  const optional = operations.filter(({ operation: { requestBody } }) => requestBody && !requestBody.required)
  expect(optional.map(({ operation }) => operation.operationId).join(' ')).toBe(
    'mailSecondFactorCode addTotp regenerateSigningSecret replaceServicePassword',
  )
  const { parameters } = operationOf('ingestEvents')
  const required = parameters.flatMap((parameter) => (parameter.required ? [parameter.name] : []))
  expect(required).toEqual(['x-company-id', 'webhook-id', 'webhook-timestamp'])
  expect(parameters).toHaveLength(3)
})

test.for(operations)('each part of $name has a name, a description, and an example', ({ operation }) => {
  const { operationId, description, parameters, requestBody, responses } = operation
  expect(description).toMatch(/\S/)
  for (const { name, description, example, schema } of parameters)
    expect([name, description, example ?? schema.examples]).toEqual([
      name,
      expect.any(String),
      expect.anything(),
    ])
  const request = { content: requestBody?.content ?? {} }
  for (const [status, { content = {} }] of Object.entries({ ...responses, request })) {
    for (const [type, { schema, example }] of Object.entries(content)) {
      if (status < '300' || status === 'request')
        expect([status, example]).toEqual([status, expect.anything()])
      // Lines of text have no named fields.
      const hasFields = type !== 'text/csv' && !(operationId === 'getOpenApi' && schema['type'] === 'object')
      const named = { $ref: expect.stringMatching(/^#\/components\/schemas\/[A-Z]/) }
      for (const form of hasFields ? (schema.anyOf ?? [schema]) : [])
        expect([status, form]).toEqual([status, expect.objectContaining(named)])
    }
  }
})

type Schema = { $ref?: string } & Record<string, unknown>

/** All objects in the document, each with its place. */
function* objectsIn(value: unknown, place = '#'): Generator<[place: string, object: Schema]> {
  if (typeof value !== 'object' || value === null) return
  for (const [key, member] of Object.entries(value)) {
    if (key === 'examples' || key === 'example') continue
    if (typeof member === 'object' && member) yield [`${place}/${key}`, member]
    yield* objectsIn(member, `${place}/${key}`)
  }
}

test('every OpenAPI field has description and example, every pattern a rule', () => {
  const all = [...objectsIn(document)]
  const fields = all.filter(([place]) => /\/properties\/[^/]+$/.test(place))
  expect(fields.length).toBeGreaterThan(80)
  for (const [place, schema] of fields) {
    const known = { ...schema, ...(schema.$ref && schemas[schema.$ref.split('/').at(-1) ?? '']) }
    expect([place, known.description]).toEqual([place, expect.stringMatching(/\S/)])
    const isComposed = schema.$ref ?? schema['items'] ?? schema['anyOf'] ?? schema['properties']
    if (!isComposed) expect([place, schema['examples']]).toEqual([place, [expect.anything()]])
  }
  const patterns = all.filter(([, one]) => 'pattern' in one)
  expect(patterns.length).toBeGreaterThan(10)
  for (const [place, schema] of patterns)
    expect([place, schema['x-must']]).toEqual([place, expect.stringMatching(/^must /)])
})

test('no field is for a hint or a secret question (ASVS 6.4.2)', () => {
  const names = [...objectsIn(document)].map(([place]) => /\/properties\/(\w+)$/.exec(place)?.[1] ?? '')
  expect(names).toContain('password')
  // The last characters of a generated secret, not of a password.
  const hints = names.filter((name) => /hint|question|reminder/i.test(name))
  expect(new Set(hints)).toEqual(new Set(['hint']))
})

test('patterns of fields match or refuse 16 KB without backtracking (ASVS 1.3.12)', () => {
  const patterns = new Set(
    [...objectsIn(document)].flatMap(([, { pattern }]) => (pattern ? [String(pattern)] : [])),
  )
  expect(patterns.size).toBeGreaterThan(10)
  // Repeated letters of many kinds, then one that most patterns refuse.
  const parts = [
    'a',
    'A',
    '0',
    '.',
    '-',
    ' ',
    'a.',
    'a-',
    'aA0',
    '0:',
    'a@',
    '=',
    '+',
    'whsec_',
    '2026-11-20T',
  ]
  for (const pattern of patterns) {
    for (const part of parts) {
      const text = `${part.repeat(16_384 / part.length)}\n`
      for (const first of ['', pattern.replace(/^\^?(\w*).*$/s, '$1')])
        expect(new RegExp(pattern, 'u').test(first + text)).toBe(false)
    }
  }
})

test('the OpenAPI document distinguishes the two responses of a sign-in', () => {
  const { parameters, responses } = operationOf('login')
  const [answer] = Object.values(responses['200']?.content ?? {})
  // The example is a response of the first form, because the example's request gets that one.
  const forms = ['TokenReply', 'SessionReply'].map((name) => ({ $ref: `#/components/schemas/${name}` }))
  expect(answer?.schema.anyOf).toEqual(forms)
  expect(parameters.map(({ name, example }) => [name, example])).toEqual([
    ['x-session-mode', 'token'],
    ['gatehouse-client-ip', '192.0.2.1'],
  ])
})

test('every error code has an example with its status', () => {
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
