import { type TSchema, Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Listener } from '../edge/listener.ts'
import { Problem } from '../errors.ts'
import { parseStrictJson } from './strict-json.ts'
import { toProblem } from './to-problem.ts'

const JSON_TYPE = /^application\/json(?: *; *charset=(?:utf-8|"utf-8"))?$/i

export function requireJsonType(request: FastifyRequest): void {
  const { 'content-type': type = '', 'content-encoding': encoding } = request.headers
  if (!JSON_TYPE.test(type) || encoding !== undefined)
    throw new Problem('unsupported_media_type', 'Send the body as application/json in UTF-8, not compressed.')
}

/** @throws Problem malformed_body, or invalid_request for a number or JSON that is not an object */
export function parseBody(bytes: Buffer, keptName?: string): object {
  const value = parseStrictJson(bytes, keptName)
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new Problem('invalid_request', 'The body must be one JSON object.', {
    errors: [{ path: '', message: 'must be an object' }],
  })
}

/** The schema of an optional body. Fastify validates a missing body as null. */
export function optionalBody<Body extends TSchema>(schema: Body) {
  return Type.Union([schema, Type.Null()])
}

const NO_QUERY = Type.Object({}, { additionalProperties: false })
const NO_BODY = optionalBody(NO_QUERY)

declare module 'fastify' {
  interface FastifyRequest {
    /** @throws Problem payload_too_large, overloaded */
    readBody(): Promise<Buffer>
  }
}

/** Bodies are strict JSON. An empty one counts as missing, since many HTTP clients send it. */
async function plugin(app: FastifyInstance, { listener }: { listener: Listener }): Promise<void> {
  // A route without a schema for its query or body takes none, as it takes no unknown fields.
  app.addHook('onRoute', ({ schema, method }) => {
    if (!schema) return
    schema.querystring ??= NO_QUERY
    if (method !== 'GET' && method !== 'HEAD') schema.body ??= NO_BODY
  })
  app.decorateRequest('readBody')
  app.addHook('onRequest', (request, reply, done) => {
    if (request.method === 'GET' || request.method === 'HEAD') return done()
    try {
      // Refuses a body that is announced and finds no room, before it is read.
      request.readBody = listener.openBody(request.raw, reply.raw, request.routeOptions.bodyLimit)
      done()
    } catch (error) {
      done(toProblem(error))
    }
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', async (request: FastifyRequest) => {
    const bytes = await request.readBody()
    if (bytes.length === 0) return undefined
    requireJsonType(request)
    return parseBody(bytes)
  })
}

export const bodyPlugin = fp(plugin, { name: 'body', dependencies: ['headers'] })
