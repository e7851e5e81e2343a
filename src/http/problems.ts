import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { isUnavailable } from '../database/faults.ts'
import { catalogue, Problem, type ProblemCode, statusOfProblem, toReply } from '../errors.ts'

interface Options {
  docsUrl: string | undefined
}

async function plugin(app: FastifyInstance, { docsUrl }: Options): Promise<void> {
  app.setErrorHandler(async (error, request, reply) => {
    const isCutOff = request.raw.destroyed && !request.raw.complete
    const met = isCutOff
      ? new Problem('malformed_http', 'The connection closed before the request was complete.')
      : toProblem(error)
    if (met.code === 'internal_error') logFault(request, 'error', met)
    if (met.code === 'unavailable') logFault(request, 'warn', met)
    const [, category] = catalogue[met.code]
    // A refused credential can be a guess. Sign-in and signatures have their own counters.
    const isCounted = category === 'authentication' && !OWN_COUNTERS.has(met.code)
    const problem = isCounted ? await app.limits.refusal(request).then(() => met, toProblem) : met
    return sendProblem(problem, request, reply, docsUrl)
  })
}

const OWN_COUNTERS = new Set<ProblemCode>([
  'invalid_credentials',
  'invalid_signature',
  'second_factor_required',
])

function logFault(request: FastifyRequest, level: 'warn' | 'error', { code, cause }: Problem): void {
  request.log[level]({ requestId: request.id, err: cause }, code)
}

function sendProblem(
  problem: Problem,
  request: FastifyRequest,
  reply: FastifyReply,
  docsUrl: string | undefined,
): FastifyReply {
  const { code, message, extras } = problem
  const { reason, limit, logContext, retryAfterSeconds, headers = {} } = extras
  Object.assign(request.logContext, logContext, { code }, reason && { reason })
  if (code === 'rate_limited' && limit) request.logContext.limit = limit.name
  if (limit) request.limit = limit
  // Further bytes of the connection cannot be trusted, or are not worth reading.
  if (code === 'malformed_http' || code === 'headers_too_large') reply.header('connection', 'close')
  const status = statusOfProblem(problem)
  if (status === 401) reply.header('www-authenticate', challenge(code, message))
  if (retryAfterSeconds !== undefined) reply.header('retry-after', retryAfterSeconds)
  reply.headers(headers).code(status).type('application/problem+json; charset=utf-8')
  return reply.send(toReply(problem, request.id, docsUrl))
}

const WITHOUT_TOKEN = new Set<ProblemCode>([
  'missing_credentials',
  'invalid_credentials',
  'invalid_signature',
  'second_factor_required',
  'invalid_second_factor',
])

/** A client that sent no bearer token gets no error code (RFC 6750, section 3). Basic: RFC 7617, section 2. */
function challenge(code: ProblemCode, detail: string): string {
  if (code === 'invalid_client') return 'Basic realm="gatehouse"'
  const realm = 'Bearer realm="gatehouse"'
  return WITHOUT_TOKEN.has(code)
    ? realm
    : `${realm}, error="invalid_token", error_description="${detail.replace(/["\\]/g, '')}"`
}

export const problemsPlugin = fp(plugin, {
  name: 'problems',
  // It also uses memory-limits, which is registered later, but before the first request.
  dependencies: ['observe'],
})

export function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  if (isUnavailable(error)) {
    const detail = 'The service cannot reach its database. Retry after 1 second.'
    return new Problem('unavailable', detail, { retryAfterSeconds: 1, cause: error })
  }
  const known = isFastifyError(error) ? fromFastify(error) : null
  const detail = 'Something went wrong in the service. If it happens again, send "requestId" to its operator.'
  return known ?? new Problem('internal_error', detail, { cause: error })
}

function isFastifyError(error: unknown): error is FastifyError {
  return error instanceof Error && 'code' in error
}

function fromFastify(error: FastifyError): Problem | null {
  if (error.validation) return fromValidation(error.validation, error.validationContext)
  const known = FRAMEWORK[error.code]
  if (known) return new Problem(...known)
  const isRefusal = error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500
  return isRefusal ? new Problem('malformed_http', 'The request is not valid HTTP.') : null
}

const FRAMEWORK: Record<string, [ProblemCode, string]> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['payload_too_large', 'The body is larger than this endpoint accepts.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    'malformed_http',
    'The length of the body differs from Content-Length.',
  ],
}

type Fault = NonNullable<FastifyError['validation']>[number]

const FORMATS: Record<string, string> = {
  'idn-email': 'must be an email address',
  uuid: 'must be a UUID',
  'date-time': 'must be a time (RFC 3339), such as 2026-11-20T10:15:00Z',
}
const TYPES: Record<string, string> = {
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  null: 'null',
}
const SIZES: Record<string, [range: 'at least' | 'at most', unit: string]> = {
  minLength: ['at least', 'character'],
  maxLength: ['at most', 'character'],
  minItems: ['at least', 'item'],
  maxItems: ['at most', 'item'],
  minProperties: ['at least', 'field'],
}

/** The validator's own messages use the terms of schemas. */
function messageOf({ keyword, params, ...fault }: Fault, isInQuery: boolean): string {
  const { type, minimum, maximum, 'x-must': rule } = 'parentSchema' in fault ? Object(fault.parentSchema) : {}
  const { limit } = params
  if (isInQuery && type === 'integer') return `must be a whole number from ${minimum} to ${maximum}`
  const [range, unit] = SIZES[keyword] ?? []
  if (range) return `must have ${range} ${limit} ${unit}${limit === 1 ? '' : 's'}`
  switch (keyword) {
    case 'additionalProperties':
      return 'is unknown'
    case 'required':
      return 'is missing'
    case 'type':
      return `must be ${TYPES[String(params['type'])]}`
    case 'minimum':
      return `must be at least ${limit}`
    case 'maximum':
      return `must be at most ${limit}`
    case 'enum':
      return `must be ${oneOf([params['allowedValues']].flat())}`
    case 'uniqueItems':
      return 'must not have duplicate items'
    case 'format':
      return FORMATS[String(params['format'])] ?? INVALID
    // People cannot read a pattern, so its schema has the rule in words.
    default:
      return String(rule ?? INVALID)
  }
}

const INVALID = 'is invalid'

function oneOf(values: unknown[]): string {
  return values.length === 1 ? String(values[0]) : `one of ${values.join(', ')}`
}

/** A union of constants has one fault for each of them. */
function joinConstants(faults: Fault[]): Fault[] {
  const constants = faults.filter(({ keyword }) => keyword === 'const')
  const joined = [...Map.groupBy(constants, ({ instancePath }) => instancePath).values()].flatMap((alike) =>
    alike.slice(0, 1).map((fault) => ({
      ...fault,
      keyword: 'enum',
      params: { allowedValues: alike.map(({ params }) => String(params['allowedValue'])) },
    })),
  )
  return [...faults.filter(({ keyword }) => keyword !== 'const'), ...joined]
}

const MAX_ERRORS = 10

function fromValidation(validation: Fault[], context: FastifyError['validationContext']): Problem {
  const prefix = context === 'body' ? '' : `/${context ?? ''}`
  // For an optional body or a union, only the errors inside one of the forms help the client.
  const helpful = validation.filter(
    ({ keyword, params }) =>
      keyword !== 'anyOf' && keyword !== 'if' && !(keyword === 'type' && params['type'] === 'null'),
  )
  const shown = joinConstants(helpful.length > 0 ? helpful : validation)
  const errors = shown.slice(0, MAX_ERRORS).map((fault) => {
    const { instancePath, keyword, params } = fault
    const name = keyword === 'required' ? params['missingProperty'] : params['additionalProperty']
    return {
      path: `${prefix}${instancePath}${typeof name === 'string' ? `/${name}` : ''}`,
      message: messageOf(fault, context === 'querystring'),
    }
  })
  const detail = 'The request is invalid. See "errors" for details.'
  return new Problem('invalid_request', detail, { errors })
}
