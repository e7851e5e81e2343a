import { type TSchema, Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Gauge, type Registry } from 'prom-client'
import { Problem } from '../errors.ts'
import { networkOf } from '../limits/client.ts'
import type { BodyBudget, Holding } from './body-budget.ts'
import { InexactNumber } from './exact-number.ts'
import { announcedBytes, readBody, releaseAtEnd } from './read-body.ts'
import { parseStrictJson, UnacceptableJson } from './strict-json.ts'
import { toProblem } from './to-problem.ts'

/** The only media type of bodies. Its only parameter is the charset, which must be UTF-8. */
const JSON_TYPE = /^application\/json(?: *; *charset=(?:utf-8|"utf-8"))?$/i

export function requireJsonType(request: FastifyRequest): void {
  if (
    !JSON_TYPE.test(request.headers['content-type'] ?? '') ||
    request.headers['content-encoding'] !== undefined
  ) {
    throw new Problem('unsupported_media_type', 'Send the body as application/json in UTF-8, not compressed.')
  }
}

/** @throws Problem malformed_body, or invalid_request for a number that does not hold or JSON that is no object */
export function parseBody(bytes: Buffer): object {
  let value: unknown
  try {
    value = parseStrictJson(bytes)
  } catch (error) {
    if (error instanceof UnacceptableJson) throw new Problem('malformed_body', error.message)
    if (error instanceof InexactNumber) {
      throw new Problem('invalid_request', error.message, {
        errors: [{ path: error.path, message: 'must be a number that a 64-bit float holds as written' }],
      })
    }
    throw error
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new Problem('invalid_request', 'The body must be one JSON object.', {
    errors: [{ path: '', message: 'must be an object' }],
  })
}

/** The schema of an optional body. Fastify validates a missing body as null. */
export function optionalBody<Body extends TSchema>(schema: Body) {
  return Type.Union([schema, Type.Null()])
}

export const NoBody = optionalBody(Type.Object({}, { additionalProperties: false }))

/** Reads a body within its route's limit and the budget. @throws Problem payload_too_large, overloaded */
export async function readBytes({ raw, routeOptions, bodyHolding }: FastifyRequest): Promise<Buffer> {
  return await readBody(raw, routeOptions.bodyLimit, bodyHolding)
}

declare module 'fastify' {
  interface FastifyRequest {
    /** What the body of the request holds of the budget. */
    bodyHolding: Holding
  }
}

/**
 * Bodies are strict JSON. An empty body counts as a missing one, since many HTTP clients send it. A body that
 * is announced and finds no room is refused before it is read.
 */
async function plugin(
  app: FastifyInstance,
  { registry, budget }: { registry: Registry; budget: BodyBudget },
): Promise<void> {
  new Gauge({
    name: 'gatehouse_body_bytes',
    help: 'Bytes of request bodies in memory',
    registers: [registry],
    collect() {
      this.set(budget.bytes)
    },
  })
  app.decorateRequest('bodyHolding')
  app.addHook('onRequest', (request, reply, done) => {
    if (request.method === 'GET' || request.method === 'HEAD') return done()
    const announced = Math.min(announcedBytes(request.raw), request.routeOptions.bodyLimit)
    try {
      const holding = budget.open(networkOf(request), announced)
      request.bodyHolding = holding
      releaseAtEnd(holding, reply.raw, request.raw.socket)
      done()
    } catch (error) {
      done(toProblem(error))
    }
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', async (request: FastifyRequest) => {
    const bytes = await readBytes(request)
    if (bytes.length === 0) return undefined
    requireJsonType(request)
    return parseBody(bytes)
  })
}

export const bodyPlugin = fp(plugin, { name: 'body', dependencies: ['headers'] })
