import { STATUS_CODES } from 'node:http'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { scopedRoutes } from '../operations.ts'
import type { HEADERS } from './plugin.ts'

async function routes(app: FastifyInstance): Promise<void> {
  let text: string | undefined

  app.get(
    '/openapi.json',
    {
      schema: {
        operationId: 'getOpenApi',
        summary: 'Get this document',
        description: 'Returns OpenAPI 3.1, generated from the schemas that validate requests.',
        tags: ['keys'],
        response: {
          200: Type.Object(
            {},
            { additionalProperties: true, description: 'OpenAPI 3.1', examples: [{ openapi: '3.1.0' }] },
          ),
        },
      },
    },
    async (_request, reply) => {
      reply.header('cache-control', 'public, max-age=300')
      // Large and public, so it is serialized once.
      text ??= JSON.stringify(readDocument(app))
      const written = text
      reply.type('application/json; charset=utf-8').serializer(() => written)
      return {}
    },
  )
}

export const openapiRoutes = scopedRoutes(routes, 'openapi-routes', ['public-guard', 'openapi'])

function readDocument(app: FastifyInstance): Document {
  const named: Named = {}
  const read: Document = JSON.parse(JSON.stringify(app.swagger()), (_key, value) =>
    toReference(joinForms(value), named),
  )
  Object.assign(read.components.schemas, named)
  read.components.examples = {}
  for (const operations of Object.values(read.paths)) {
    for (const operation of Object.values(operations)) {
      describe(operation, read.components)
      addExamples(operation, read.components)
    }
  }
  return read
}

interface Operation {
  parameters?: (Parameter | { $ref: string })[]
  requestBody?: { required: boolean; content: Record<string, Media> }
  security: Record<string, string[]>[]
  responses: Record<
    string,
    { description: string; headers?: Record<string, object>; content?: Record<string, Media> }
  >
}

interface Parameter {
  in: string
  name: string
  required: boolean
  schema: Schema
  example?: unknown
}

interface Media {
  schema: Schema
  example?: unknown
  examples?: Record<string, unknown>
}

interface Document {
  components: {
    headers: object
    parameters?: object
    schemas: Record<string, Schema>
    examples: Record<string, unknown>
  }
  paths: Record<string, Record<string, Operation>>
}

function describe(operation: Operation, components: Document['components']): void {
  const { requestBody, security, responses } = operation
  const parameters = (operation.parameters ?? []).filter((one) => 'name' in one)
  const json = requestBody?.content['application/json']
  const [shape, nothing] = json?.schema.anyOf ?? []
  if (requestBody && json && shape && nothing?.type === 'null') {
    requestBody.required = false
    json.schema = shape
    // An empty object counts as a missing body, but that is not part of the API.
    if (!shape.$ref && Object.keys(shape.properties ?? {}).length === 0) delete operation.requestBody
  }
  // The guard checks these headers, not the schema, so that a missing header returns 401.
  if (security.some((schemes) => 'signature' in schemes)) {
    for (const parameter of parameters) parameter.required ||= parameter.in === 'header'
  }
  for (const parameter of parameters) {
    if (parameter.schema.type === 'integer') parameter.example = Number(parameter.example)
  }
  // The session guard checks this header, too, and only together with a cookie.
  const namesSession = 'SessionId' in (components.parameters ?? {})
  if (namesSession && security.some((schemes) => 'sessionCookie' in schemes))
    operation.parameters = [...parameters, { $ref: '#/components/parameters/SessionId' }]
  const setsCookie = parameters.some(({ name }) => name === 'x-session-mode')
  for (const [status, response] of Object.entries(responses)) {
    if (response.description === 'Default Response') response.description = STATUS_CODES[status] ?? status
    response.headers = { ...response.headers, ...headersOf(Number(status), setsCookie, components) }
  }
}

function addExamples(
  { requestBody, responses }: Operation,
  { schemas, examples }: Document['components'],
): void {
  const replies = Object.values(responses).flatMap(({ content }) => Object.values(content ?? {}))
  for (const media of [...Object.values(requestBody?.content ?? {}), ...replies]) {
    if (media.examples) {
      Object.assign(examples, media.examples)
      for (const name of Object.keys(media.examples))
        media.examples[name] = { $ref: `#/components/examples/${name}` }
    } else media.example ??= exampleOf(media.schema, schemas)
  }
}

/** For human readers: constants become an enumeration, a choice by a field becomes a union. */
function joinForms(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if ('if' in value && 'then' in value && 'else' in value) {
    const { if: _if, then, else: otherwise, type: _type, ...others } = { type: '', ...value }
    return { ...others, anyOf: [otherwise, then] }
  }
  if (!('anyOf' in value) || !Array.isArray(value.anyOf)) return value
  const { anyOf, ...others } = value
  const words = anyOf.flatMap((schema: Schema) => (schema.type === 'string' ? (schema.enum ?? []) : []))
  return words.length === anyOf.length ? { ...others, type: 'string', enum: words } : value
}

function headersOf(
  status: number,
  setsCookie: boolean,
  { headers }: Pick<Document['components'], 'headers'>,
): Record<string, { $ref: string }> {
  const described: [name: string, component: keyof typeof HEADERS, isSent: boolean][] = [
    ['X-Request-Id', 'RequestId', true],
    ['RateLimit', 'RateLimit', status < 300 || status === 429],
    ['RateLimit-Policy', 'RateLimitPolicy', status < 300 || status === 429],
    ['Retry-After', 'RetryAfter', status === 429 || status === 503],
    ['WWW-Authenticate', 'Challenge', status === 401],
    ['Set-Cookie', 'SessionCookie', status < 300 && setsCookie],
  ]
  // The platform listener has no limits.
  const known = described.filter(([, component, isSent]) => isSent && component in headers)
  return Object.fromEntries(
    known.map(([name, component]) => [name, { $ref: `#/components/headers/${component}` }]),
  )
}

interface Schema {
  title?: string
  type?: string
  const?: unknown
  enum?: unknown[]
  examples?: unknown[]
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  $ref?: string
}

type Named = Record<string, Schema>

/** Moves a schema with a title to `named`. Other values stay unchanged. */
function toReference(value: unknown, named: Named): unknown {
  if (!isTitled(value)) return value
  const { title, ...schema } = value
  const known = named[title]
  if (known && JSON.stringify(known) !== JSON.stringify(schema))
    throw new Error(`two schemas have the title ${title}`)
  named[title] = schema
  return { $ref: `#/components/schemas/${title}` }
}

function isTitled(value: unknown): value is Schema & { title: string } {
  if (typeof value !== 'object' || value === null || !('title' in value) || !('type' in value)) return false
  return value.type === 'object' && typeof value.title === 'string'
}

function exampleOf(schema: Schema, schemas: Named): unknown {
  const { $ref, examples, enum: words, anyOf, properties, items } = schema
  const name = $ref?.split('/').at(-1)
  if (name !== undefined) return exampleOf(schemas[name] ?? {}, schemas)
  if (examples?.[0] !== undefined) return examples[0]
  if (schema.const !== undefined) return schema.const
  if (words) return words[0]
  if (anyOf?.[0]) return exampleOf(anyOf[0], schemas)
  if (items) return [exampleOf(items, schemas)]
  if (!properties) return schema.type === 'object' ? {} : null
  return Object.fromEntries(
    Object.entries(properties).map(([field, one]) => [field, exampleOf(one, schemas)]),
  )
}
