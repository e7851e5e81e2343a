import { SerializerSelector } from '@fastify/fast-json-stringify-compiler'
import type { TSchema } from '@sinclair/typebox'
import type { FastifyInstance, FastifySchema } from 'fastify'
import fp from 'fastify-plugin'
import { catalogue, type ProblemCode, ProblemReply, statusOf } from '../errors.ts'
import { CODES } from './openapi/codes.ts'

/** The possible responses of a route. It lists its own; its scopes add theirs, so that no route can forget one. */

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
const WITH_BODY: readonly ProblemCode[] = ['malformed_body', 'payload_too_large', 'unsupported_media_type']

/** Keyed by the object with a route's responses. */
const problemsOf = new WeakMap<object, Set<ProblemCode>>()

const statusesOf = new WeakMap<object, typeof statusOf>()

export function responses<Own extends Record<number, TSchema>>(own: Own, ...codes: ProblemCode[]): Own {
  return responsesBy(statusOf, own, ...codes)
}

/** For a route with its own statuses, one per code. */
export function responsesBy<Own extends Record<number, TSchema>>(
  statusOfCode: typeof statusOf,
  own: Own,
  ...codes: ProblemCode[]
): Own {
  const all = { ...own }
  statusesOf.set(all, statusOfCode)
  add(all, codes)
  return all
}

export function addProblems(schema: FastifySchema | undefined, codes: readonly ProblemCode[]): void {
  if (typeof schema?.response === 'object' && schema.response !== null) add(schema.response, codes)
}

function add(response: object, codes: readonly ProblemCode[]): void {
  const known = problemsOf.get(response) ?? new Set()
  const statusOfCode = statusesOf.get(response) ?? statusOf
  const changed = new Set(codes.filter((code) => !known.has(code)).map((code) => statusOfCode(code)))
  for (const code of codes) known.add(code)
  problemsOf.set(response, known)
  const rare = [...known].filter((code) => !EVERYWHERE.includes(code))
  const ordered = [...rare, ...EVERYWHERE.filter((code) => known.has(code))]
  for (const [status, ofStatus] of Map.groupBy(ordered, (code) => statusOfCode(code)))
    if (changed.has(status)) Object.assign(response, { [status]: toResponse(ofStatus, status) })
}

function toResponse(codes: ProblemCode[], status: number) {
  const nameOf = (code: ProblemCode) => (statusOf(code) === status ? code : `${code}_${status}`)
  const examples = Object.fromEntries(codes.map((code) => [nameOf(code), exampleOf(code, status)]))
  return {
    description: codes.map((code) => `${catalogue[code][2]} (\`${code}\`)`).join('; '),
    content: { 'application/problem+json': { schema: { $ref: 'Problem#' }, examples } },
  }
}

const EXAMPLE_ID = '01890a5d-ac96-774b-bcce-b302099a8057'
const MEMBERS: Partial<Record<ProblemCode, object>> = {
  invalid_request: { errors: [{ path: '/email', message: 'is missing' }] },
  session_ended: { reason: 'logout' },
  refresh_token_reused: { reason: 'refresh_reuse' },
  second_factor_required: {
    challenge: '3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
    methods: ['passkey', 'totp', 'recovery_code'],
    passkeyOptions: { challenge: '3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', rpId: 'auth.example.com' },
  },
}

function exampleOf(code: ProblemCode, status: number) {
  const [, category, title] = catalogue[code]
  const type = `urn:gatehouse:problem:${code}`
  const problem = { type, title, status, detail: CODES[code].replaceAll('`', ''), category, code }
  return { summary: title, value: { ...problem, requestId: EXAMPLE_ID, ...MEMBERS[code] } }
}

async function plugin(app: FastifyInstance, { isLimited }: { isLimited: boolean }): Promise<void> {
  const everywhere = EVERYWHERE.filter((code) => isLimited || code !== 'rate_limited')
  app.addSchema(ProblemReply)
  app.addHook('onRoute', ({ schema, method }) => {
    addProblems(schema, everywhere)
    if (method !== 'GET' && method !== 'HEAD') addProblems(schema, WITH_BODY)
  })
}

type Build = ReturnType<typeof SerializerSelector>

const serializers = new WeakMap<object, ReturnType<ReturnType<Build>>>()

/** Compiles each schema object once. Once per route and status would take longer than the rest of building the app. */
export const buildSerializer: Build = (...options) => {
  const compile = SerializerSelector()(...options)
  return (route) => {
    const { schema } = route
    if (!(schema instanceof Object)) return compile(route)
    const serialize = serializers.get(schema) ?? compile({ ...route, schema: withoutValues(schema) })
    serializers.set(schema, serialize)
    return serialize
  }
}

/** In a union, the serializer would check values, and fail for one that a later release has added to the database. */
function withoutValues(schema: object): object {
  return JSON.parse(JSON.stringify(schema, (name, value) => (name === 'enum' ? undefined : value)))
}

export const responsesPlugin = fp(plugin, { name: 'responses' })
