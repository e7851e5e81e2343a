import type { TSchema } from '@sinclair/typebox'
import type { FastifyInstance, FastifySchema } from 'fastify'
import fp from 'fastify-plugin'
import { catalogue, type ProblemCode, ProblemReply, statusOf } from '../errors.ts'

/**
 * What a route can answer, by status, as its schema and the OpenAPI document have it. A route names its own
 * answers and problems; the scopes that it stands in add theirs, so no route can forget one.
 */

/** What every request can meet. */
const EVERYWHERE: readonly ProblemCode[] = [
  'invalid_request',
  'malformed_http',
  'request_timeout',
  'headers_too_large',
  'rate_limited',
  'internal_error',
  'overloaded',
  'unavailable',
]
/** What a request with a method that takes a body can meet besides. */
const WITH_BODY: readonly ProblemCode[] = ['malformed_body', 'payload_too_large', 'unsupported_media_type']

/** The problems that are named for a route so far, by the object that holds its responses. */
const problemsOf = new WeakMap<object, Set<ProblemCode>>()

/** The responses of a route: schemas by status, and the codes of problems that only this route has. */
export function responses<Own extends Record<number, TSchema>>(own: Own, ...codes: ProblemCode[]): Own {
  const all = { ...own }
  add(all, codes)
  return all
}

/** Adds the problems of a scope to the responses of a route in it; for `onRoute` hooks. */
export function addProblems(schema: FastifySchema | undefined, codes: readonly ProblemCode[]): void {
  if (typeof schema?.response === 'object' && schema.response !== null) add(schema.response, codes)
}

function add(response: object, codes: readonly ProblemCode[]): void {
  const known = problemsOf.get(response) ?? new Set()
  for (const code of codes) known.add(code)
  problemsOf.set(response, known)
  // What every request can meet is listed last.
  const rare = [...known].filter((code) => !EVERYWHERE.includes(code))
  const byStatus = Map.groupBy(new Set([...rare, ...EVERYWHERE.filter((code) => known.has(code))]), statusOf)
  for (const [status, ofStatus] of byStatus) Object.assign(response, { [status]: toResponse(ofStatus) })
}

function toResponse(codes: ProblemCode[]) {
  return {
    description: codes.map((code) => `${catalogue[code][2]} (\`${code}\`)`).join('; '),
    content: { 'application/problem+json': { schema: { $ref: 'Problem#' } } },
  }
}

/** Adds to each route what every request can meet. */
async function plugin(app: FastifyInstance): Promise<void> {
  app.addSchema(ProblemReply)
  app.addHook('onRoute', ({ schema, method }) => {
    addProblems(schema, EVERYWHERE)
    if (method !== 'GET' && method !== 'HEAD') addProblems(schema, WITH_BODY)
  })
}

export const responsesPlugin = fp(plugin, { name: 'responses' })
