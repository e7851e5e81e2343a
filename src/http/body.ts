import type { IncomingMessage } from 'node:http'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { type BodyBudget, openBody, passUnusedBody } from '../edge/bodies.ts'
import { lingerIfUnread } from '../edge/refusals.ts'
import { Problem } from '../errors.ts'
import { networkOf } from '../limits/client.ts'
import { optionalBody } from './fields.ts'
import { toProblem } from './problems.ts'
import { parseStrictJson } from './strict-json.ts'

const TOKEN = "[\\w!#$%&'*+.^`|~-]+"
const PARAMETER = `charset=(?:utf-?8|"utf-?8")|(?!charset=)${TOKEN}=(?:${TOKEN}|"(?:[^"\\\\]|\\\\.)*")`

/** Accepts only UTF-8, with any other parameters (RFC 9110, section 8.3.1). */
export function mediaType(name: string) {
  return { name, pattern: new RegExp(`^${name}[ \t]*(?:;[ \t]*(?:(?:${PARAMETER})[ \t]*)?)*$`, 'i') }
}

export const JSON_TYPE = mediaType('application/json')

/** @throws Problem malformed_body, or invalid_request for a number or JSON that is not an object */
export function parseBody(bytes: Buffer, keptName?: string): object {
  return requireObject(parseStrictJson(bytes, keptName))
}

function requireObject(value: unknown): object {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new Problem('invalid_request', 'The body must be one JSON object.', {
    errors: [{ path: '', message: 'must be an object' }],
  })
}

const NO_QUERY = Type.Object({}, { additionalProperties: false })
const NO_BODY = optionalBody(NO_QUERY)

function announcesBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Undefined if empty (RFC 9110, section 6.4). @throws Problem unsupported_media_type, payload_too_large, overloaded */
    readBody(type: ReturnType<typeof mediaType>): Promise<Buffer | undefined>
  }
}

async function plugin(
  app: FastifyInstance,
  { budget, isPublic }: { budget: BodyBudget; isPublic: boolean },
): Promise<void> {
  // A route without a schema for its query or body accepts none.
  app.addHook('onRoute', ({ schema, method }) => {
    if (!schema) return
    schema.querystring ??= NO_QUERY
    if (method !== 'GET' && method !== 'HEAD') schema.body ??= NO_BODY
  })
  app.decorateRequest('readBody')
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request
    const hasNone = request.method === 'GET' || request.method === 'HEAD'
    if (hasNone && !announcesBody(raw)) return done()
    const arriving = { message: raw, answer: reply.raw, network: networkOf(request), budget }
    if (hasNone) {
      if (isPublic) return void passUnusedBody(arriving).then(() => done(), done)
      // Proxies announce the body of the request that they ask about, but often do not send it. Later bytes could be either.
      reply.header('connection', 'close')
      lingerIfUnread(raw)
      return done()
    }
    try {
      const read = openBody(arriving, request.routeOptions.bodyLimit)
      const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = raw.headers
      request.readBody = async (expected) => {
        const bytes = await read()
        if (bytes.length === 0) return undefined
        if (expected.pattern.test(type) && encoding.toLowerCase() === 'identity') return bytes
        const detail = `The type of the body is not supported. Send ${expected.name} in UTF-8, not compressed.`
        throw new Problem('unsupported_media_type', detail)
      }
      // Otherwise Fastify checks the type even if the body is empty.
      raw.headers['content-type'] = undefined
      done()
    } catch (error) {
      done(toProblem(error))
    }
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', async (request: FastifyRequest) => {
    const bytes = await request.readBody(JSON_TYPE)
    if (!bytes) return undefined
    const value = parseStrictJson(bytes)
    // Some clients send these, or an empty object, to an endpoint without a body.
    const isNothing = value === null || (Array.isArray(value) && value.length === 0)
    return isNothing && request.routeOptions.schema?.body === NO_BODY ? undefined : requireObject(value)
  })
}

export const bodyPlugin = fp(plugin, { name: 'body', dependencies: ['headers'] })
