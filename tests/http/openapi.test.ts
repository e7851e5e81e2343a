import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { catalogue } from '../../src/errors.ts'
import { openTestService } from '../support/test-service.ts'

interface Parameter {
  name: string
  required?: boolean
}

interface Operation {
  operationId: string
  summary: string
  tags: string[]
  security: Record<string, string[]>[]
  requestBody?: { required: boolean }
  parameters?: (Parameter | { $ref: string })[]
  responses: Record<string, { description: string; headers?: object; content?: Record<string, unknown> }>
}

const service = await openTestService({ env: { PUBLIC_URL: 'https://auth.gatehouse.test' } })
const { body: document } = await service.call('/openapi.json', { method: 'GET' })
const operations = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    method: method.toUpperCase(),
    path: path.replace(/\{\w+\}/g, '01890a5d-ac96-774b-bcce-b302099a8057'),
    name: `${method.toUpperCase()} ${path}`,
    operation: { ...operation, parameters: (operation.parameters ?? []).map(resolveParameter) },
  })),
)

function resolveParameter(parameter: Parameter | { $ref: string }): Parameter {
  return '$ref' in parameter
    ? document.components.parameters[parameter.$ref.split('/').at(-1) ?? '']
    : parameter
}

describe('the OpenAPI document (ASVS 2.1.1)', () => {
  test('is OpenAPI 3.1 of product version 1.1, with every route in it', () => {
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

  test.for(operations)('says of $name who may call it and how it can end', ({ operation }) => {
    expect(operation.operationId).toMatch(/^[a-z][A-Za-z]+$/)
    expect(operation.summary).toMatch(/\S/)
    const tags = document.tags.map(({ name }: { name: string }) => name)
    expect(operation.tags.filter((tag) => tags.includes(tag))).toHaveLength(1)
    expect(operation.security).toBeInstanceOf(Array)
    const schemes = Object.keys(document.components.securitySchemes)
    for (const one of operation.security) expect(schemes).toEqual(expect.arrayContaining(Object.keys(one)))
    const statuses = Object.keys(operation.responses)
    expect(statuses).toEqual(expect.arrayContaining(['400', '408', '429', '431', '500', '503']))
    // A session that is renewed by cookie has no body to answer.
    const successes = operation.operationId === 'reauthenticate' ? 2 : 1
    expect(statuses.filter((status) => status.startsWith('2'))).toHaveLength(successes)
    const signIns = ['login', 'completeLogin', 'loginByPasskey']
    const asks = operation.security.length > 0 || signIns.includes(operation.operationId)
    expect(statuses.includes('401')).toBe(asks)
    for (const [status, { description, headers, content }] of Object.entries(operation.responses)) {
      expect(description).toMatch(/\S/)
      expect(headers).toHaveProperty('X-Request-Id')
      if (status.startsWith('2')) expect(headers).toHaveProperty('RateLimit')
      else expect(content).toEqual({ 'application/problem+json': expect.anything() })
      if (status === '401') expect(headers).toHaveProperty('WWW-Authenticate')
      if (status === '429' || status === '503') expect(headers).toHaveProperty('Retry-After')
    }
  })

  test('says which bodies may be left out, and which headers may not', () => {
    const bodies = operations.map(({ operation }) => [
      operation.operationId,
      operation.requestBody ? (operation.requestBody.required ? 'required' : 'optional') : 'none',
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
    const parameters = operations.find(({ operation }) => operation.operationId === 'ingestEvents')?.operation
      .parameters
    expect(parameters?.map(({ name, required }) => [name, required])).toEqual([
      ['x-company-id', true],
      ['webhook-id', true],
      ['webhook-timestamp', true],
    ])
    for (const { name, operation } of operations) {
      const takesCookie = operation.security.some((schemes) => 'sessionCookie' in schemes)
      const named = operation.parameters?.some((one) => one.name === 'x-session-id') ?? false
      expect([name, named]).toEqual([name, takesCookie])
    }
  })
})

/** Every schema of the document with a place in it, also those within others. */
function* schemasIn(
  value: unknown,
  place = '#',
): Generator<[place: string, schema: Record<string, unknown>]> {
  if (typeof value !== 'object' || value === null) return
  for (const [key, member] of Object.entries(value)) {
    if (key === 'examples' || key === 'example') continue
    const inner = `${place}/${key}`
    if (key === 'properties') {
      for (const [name, schema] of Object.entries(member)) {
        yield [`${inner}/${name}`, schema as Record<string, unknown>]
      }
    }
    yield* schemasIn(member, inner)
  }
}

/** Every object of the document. */
function* objectsIn(value: unknown): Generator<object> {
  if (typeof value !== 'object' || value === null) return
  yield value
  for (const member of Object.values(value)) yield* objectsIn(member)
}

describe('nobody needs another document (ASVS 2.1.1, 2.1.3):', () => {
  const { schemas } = document.components
  /** A schema with what its reference points at. */
  const resolve = (schema: { $ref?: string }) => ({
    ...schema,
    ...(schema.$ref && schemas[schema.$ref.split('/').at(-1) ?? '']),
  })

  test('bodies and answers are schemas with names', () => {
    for (const { name, operation } of operations) {
      const answers = Object.values(operation.responses).flatMap(({ content }) =>
        // Lines of text have no fields to name.
        Object.entries(content ?? {}).flatMap(([type, body]) => (type === 'text/csv' ? [] : [body])),
      )
      const bodies = Object.values((operation.requestBody as { content?: object } | undefined)?.content ?? {})
      for (const { schema } of [...answers, ...bodies] as { schema: Record<string, unknown> }[]) {
        if (operation.operationId === 'getOpenApi' && schema['type'] === 'object') continue
        const forms = (schema['anyOf'] ?? [schema]) as { $ref?: string }[]
        for (const { $ref } of forms)
          expect([name, $ref]).toEqual([name, expect.stringMatching(/^#\/components\/schemas\/[A-Z]/)])
      }
    }
    expect(Object.keys(schemas)).toEqual(
      expect.arrayContaining(['Problem', 'TokenReply', 'SessionReply', 'LoginBody', 'Event', 'EventBatch']),
    )
  })

  test('every operation and parameter, and every field at every depth, has a description and an example', () => {
    for (const { name, operation } of operations) {
      const { description, parameters = [] } = operation as { description?: string; parameters?: object[] }
      expect([name, description]).toEqual([name, expect.stringMatching(/\S/)])
      for (const parameter of parameters as Record<string, Record<string, unknown>>[]) {
        expect([name, parameter['name'], parameter['description']]).toEqual([
          name,
          parameter['name'],
          expect.any(String),
        ])
        expect([
          name,
          parameter['name'],
          parameter['example'] ?? parameter['examples'] ?? parameter['schema']?.['examples'],
        ]).toEqual([name, parameter['name'], expect.anything()])
      }
      const media = [
        operation.requestBody,
        ...Object.entries(operation.responses).flatMap(([status, one]) => (status < '300' ? [one] : [])),
      ]
      for (const one of media as ({ content?: Record<string, { example?: unknown }> } | undefined)[]) {
        for (const { example } of Object.values(one?.content ?? {}))
          expect([name, example]).toEqual([name, expect.anything()])
      }
    }
    const fields = [...schemasIn(document)]
    expect(fields.length).toBeGreaterThan(80)
    for (const [place, schema] of fields) {
      const known = resolve(schema as { $ref?: string })
      expect([place, known['description' as never]]).toEqual([place, expect.stringMatching(/\S/)])
      const isComposed = schema['$ref'] ?? schema['items'] ?? schema['anyOf'] ?? schema['properties']
      if (!isComposed) expect([place, schema['examples']]).toEqual([place, [expect.anything()]])
    }
  })

  test('a form that is a pattern is told in words too, in its refusal (ASVS 2.1.1)', async () => {
    const patterns = [...objectsIn(document)].filter((one) => 'pattern' in one)
    expect(patterns.length).toBeGreaterThan(10)
    for (const schema of patterns) {
      expect(schema).toEqual(expect.objectContaining({ 'x-must': expect.stringMatching(/^must /) }))
    }
    const admin = await service.addCompany()
    const token = (await service.loginAs(admin)).accessToken
    const { refreshToken } = await service.loginAs(admin)
    const server = { name: 'Worker', role: 'viewer' }
    const rows: [path: string, options: object, at: string, message: string][] = [
      [
        '/auth/members?limit=0',
        { method: 'GET' },
        '/querystring/limit',
        'must be a whole number from 1 to 100',
      ],
      [
        '/auth/audit?limit=1.5',
        { method: 'GET' },
        '/querystring/limit',
        'must be a whole number from 1 to 100',
      ],
      [
        '/auth/audit/daily?days=91',
        { method: 'GET' },
        '/querystring/days',
        'must be a whole number from 1 to 90',
      ],
      [
        '/auth/audit?actor=ada',
        { method: 'GET' },
        '/querystring/actor',
        'must be the id of a member, or operator',
      ],
      [
        '/auth/members',
        { json: { ...server, assignments: ['a', '-'] } },
        '/assignments/1',
        'must be 1 to 100 of A-Z a-z 0-9 : . _ / - and begin with a letter or digit',
      ],
      [
        '/auth/members',
        { json: { ...server, role: 'admin' } },
        '/role',
        'must be one of analyst, developer, viewer',
      ],
      [
        '/auth/refresh',
        { token: refreshToken, headers: { 'idempotency-key': 'a b' } },
        '/headers/idempotency-key',
        'must be 1 to 128 of A-Z a-z 0-9 _ -',
      ],
    ]
    for (const [path, options, at, message] of rows) {
      const { status, body } = await service.call(path, { token, ...options })
      expect([path, status, body.errors]).toEqual([path, 400, [{ path: at, message }]])
    }
  })

  test('roles and assignments of members are as they are accepted', async () => {
    const { ServiceMemberBody, MemberChangeBody } = schemas
    const roles = schemas.User.properties.role.enum
    const admin = await service.addCompany()
    const { userId } = await service.addUser(admin)
    const { accessToken: token } = await service.loginAs(admin)
    for (const role of roles) {
      const { status } = await service.call('/auth/members', { token, json: { name: 'Worker', role } })
      expect([role, status]).toEqual([
        role,
        ServiceMemberBody.properties.role.enum.includes(role) ? 201 : 400,
      ])
    }
    const { maxItems, uniqueItems, items } = MemberChangeBody.properties.assignments
    expect(MemberChangeBody.properties.role.enum).toEqual(roles)
    const change = async (assignments: string[]) =>
      (await service.call(`/auth/members/${userId}`, { method: 'PATCH', token, json: { assignments } }))
        .status
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

  test('numbers in queries are numbers with their bounds, and are taken as such', async () => {
    const parameters = operations.flatMap(({ path, operation }) =>
      (operation.parameters ?? []).map((one) => ({ path, ...(one as object) }) as Record<string, unknown>),
    )
    const numbers = parameters.filter(({ name }) => name === 'limit' || name === 'days')
    expect(numbers.length).toBeGreaterThanOrEqual(4)
    const { accessToken: token } = await service.loginAs(await service.addCompany())
    for (const { path, name, schema, example } of numbers) {
      const { type, minimum, maximum, default: usual } = schema as Record<string, number>
      expect([type, minimum, typeof maximum, typeof usual, typeof example]).toEqual([
        'integer',
        1,
        ...['number', 'number', 'number'],
      ])
      for (const [value, status] of [
        [minimum, 200],
        [maximum, 200],
        [usual, 200],
        [0, 400],
        [Number(maximum) + 1, 400],
      ]) {
        const answer = await service.call(`${path}?${name}=${value}`, { method: 'GET', token })
        expect([path, name, value, answer.status]).toEqual([path, name, value, status])
      }
    }
  })

  test('the two answers of a sign-in are told apart', () => {
    const login = operations.find(({ operation }) => operation.operationId === 'login')
    const [answer] = Object.values(login?.operation.responses['200']?.content ?? {}) as [
      { schema: Record<string, unknown> },
    ]
    expect(answer.schema['anyOf']).toEqual([
      { $ref: '#/components/schemas/TokenReply' },
      { $ref: '#/components/schemas/SessionReply' },
    ])
    expect(answer.schema['description']).toContain('X-Session-Mode')
    expect(schemas.TokenReply.required).toEqual(expect.arrayContaining(['accessToken', 'refreshToken']))
    expect(Object.keys(schemas.SessionReply.properties)).not.toContain('accessToken')
  })

  test('roles, permissions, plans, reasons and codes are enumerations, those that the database knows', async () => {
    const { rows: roles } = await sql<{
      role: string
      permissions: string[]
    }>`select role, permissions from roles`.execute(service.db)
    const { rows: plans } = await sql<{ plan: string }>`select plan from plans`.execute(service.db)
    expect(schemas.User.properties.role.enum.toSorted()).toEqual(roles.map(({ role }) => role).sort())
    expect(schemas.Subscription.properties.plan.enum.toSorted()).toEqual(plans.map(({ plan }) => plan).sort())
    for (const { permissions } of roles) {
      expect(schemas.TokenReply.properties.permissions.items.enum).toEqual(
        expect.arrayContaining(permissions),
      )
    }
    const { rows: checks } = await sql<{ definition: string }>`
      select pg_get_constraintdef(oid) as definition from pg_constraint
      where conrelid = 'sessions'::regclass and contype = 'c'`.execute(service.db)
    const { reason, code } = schemas.Problem.properties
    for (const one of ['logout', 'superseded', 'user_deleted']) expect(reason.enum).toContain(one)
    const known = checks
      .map(({ definition }) => definition)
      .filter((text) => text.includes("'refresh_reuse'"))
    for (const [, word] of known.join().matchAll(/'([a-z_]+)'/g)) expect(reason.enum).toContain(word)
    expect(code.enum).toEqual(Object.keys(catalogue))
  })

  /** The rows of a table of the description, by their first cell. */
  const tableOf = (chapter: string): Record<string, string[]> => {
    const [, text = ''] = document.info.description.split(`## ${chapter}\n`)
    const rows = text.split('\n## ', 1)[0].matchAll(/^\| `([^`]+)` \| (.+) \|$/gm)
    return Object.fromEntries(
      Array.from(rows, ([, name = '', cells = '']: RegExpExecArray) => [name, cells.split(' | ')]),
    )
  }

  test('each code has its meaning, and an example wherever it can be answered', () => {
    const rows = tableOf('Errors')
    for (const [code, [status]] of Object.entries(catalogue)) {
      expect([code, rows[code]]).toEqual([
        code,
        [String(status), expect.stringMatching(/^[A-Z].+\. [A-Z].+\.$/)],
      ])
    }
    expect(Object.keys(rows)).toHaveLength(Object.keys(catalogue).length)
    for (const { name, operation } of operations) {
      for (const [status, { description, content }] of Object.entries(operation.responses)) {
        if (status < '400') continue
        const codes = Array.from(description.matchAll(/\(`(\w+)`\)/g), ([, code = '']) => code)
        const problem = content?.['application/problem+json'] as
          | { examples: Record<string, object> }
          | undefined
        const examples = problem?.examples ?? {}
        expect([name, status, Object.keys(examples)]).toEqual([name, status, codes])
        for (const code of codes) {
          expect(examples[code]).toEqual({ $ref: `#/components/examples/${code}` })
          const { value } = document.components.examples[code]
          expect(value).toMatchObject({ code, status: Number(status) })
        }
      }
    }
  })

  test('roles, plans and what they permit are as the database has them', async () => {
    const rows = tableOf('Roles and plans')
    const wordsOf = (name: string) => rows[name]?.[0]?.match(/[\w:-]+/g)?.toSorted()
    const roles = await service.db.selectFrom('roles').select(['role', 'permissions']).execute()
    const plans = await service.db.selectFrom('plans').select(['plan', 'features']).execute()
    for (const { role, permissions } of roles)
      expect([role, wordsOf(role)]).toEqual([role, permissions.toSorted()])
    for (const { plan, features } of plans) expect([plan, wordsOf(plan)]).toEqual([plan, features.toSorted()])
    expect(Object.keys(rows)).toHaveLength(roles.length + plans.length)
  })

  test('limits, lifetimes and the rules for passwords are in it, with the numbers of this service', async () => {
    const other = await openTestService({
      env: { RATE_LIMIT_SCALE: '1', ACCESS_TOKEN_TTL_SECONDS: '123', LIMIT_REFRESH: '17/61' },
    })
    const { description } = (await other.call('/openapi.json', { method: 'GET' })).body.info
    for (const { name, max, windowSeconds } of Object.values(other.config.limits)) {
      expect(description).toContain(`| \`${name}\` | ${max} in ${windowSeconds} s |`)
    }
    for (const text of ['123 s', '17 in 61 s', '8 to 128 characters', '100,000,000 guesses', '72 h']) {
      expect(description).toContain(text)
    }
  })
})
