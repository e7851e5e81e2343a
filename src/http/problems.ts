import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { catalogue, Problem, type ProblemCode, statusOfProblem, toReply } from '../errors.ts'
import { toProblem } from './to-problem.ts'

/** Answers every error with problem details (RFC 9457). An unexpected one is logged and answered 500. */
async function plugin(app: FastifyInstance): Promise<void> {
  app.setErrorHandler(async (error, request, reply) => {
    const isCutOff = request.raw.destroyed && !request.raw.complete
    const met = isCutOff ? new Problem('malformed_http', 'The request was cut off.') : toProblem(error)
    logIfOurs(met, request)
    const problem = await countIfRefused(met, request)
    Object.assign(request.logContext, logContextOf(problem))
    // Further bytes of the connection cannot be trusted, or are not worth reading.
    if (problem.code === 'malformed_http' || problem.code === 'headers_too_large') {
      reply.header('connection', 'close')
    }
    return sendProblem(problem, request, reply)
  })

  /** Counts a refused credential, since it can be a guess. Sign-in and signatures have their own counters. */
  async function countIfRefused(problem: Problem, request: FastifyRequest): Promise<Problem> {
    const [, category] = catalogue[problem.code]
    if (category !== 'authentication' || OWN_COUNTERS.has(problem.code)) return problem
    return await app.limits.refusal(request).then(() => problem, toProblem)
  }
}

function logContextOf({
  code,
  extras: { reason, limit, logContext },
}: Problem): FastifyRequest['logContext'] {
  const isLimited = code === 'rate_limited'
  return { ...logContext, code, ...(reason && { reason }), ...(isLimited && limit && { limit: limit.name }) }
}

const OWN_COUNTERS = new Set<ProblemCode>([
  'invalid_credentials',
  'invalid_signature',
  'second_factor_required',
])

function logIfOurs(problem: Problem, request: FastifyRequest): void {
  if (problem.code !== 'internal_error' && problem.code !== 'unavailable') return
  const level = problem.code === 'unavailable' ? 'warn' : 'error'
  request.log[level]({ requestId: request.id, err: problem.cause }, problem.code)
}

function sendProblem(problem: Problem, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { extras, code } = problem
  const status = statusOfProblem(problem)
  if (status === 401) reply.header('www-authenticate', challenge(code, problem.message))
  if (extras.limit) request.limit = extras.limit
  if (extras.retryAfterSeconds !== undefined) reply.header('retry-after', extras.retryAfterSeconds)
  if (extras.headers) reply.headers(extras.headers)
  return reply.code(status).type('application/problem+json; charset=utf-8').send(toReply(problem, request.id))
}

const WITHOUT_TOKEN = new Set<ProblemCode>([
  'missing_credentials',
  'invalid_credentials',
  'invalid_signature',
  'second_factor_required',
  'invalid_second_factor',
])

/** A client that sent no bearer token gets no error code (RFC 6750, section 3). */
function challenge(code: ProblemCode, detail: string): string {
  // RFC 7617, section 2
  if (code === 'invalid_client') return 'Basic realm="gatehouse"'
  const realm = 'Bearer realm="gatehouse"'
  return WITHOUT_TOKEN.has(code)
    ? realm
    : `${realm}, error="invalid_token", error_description="${detail.replace(/["\\]/g, '')}"`
}

export const problemsPlugin = fp(plugin, {
  name: 'problems',
  // It also uses memory-limits, which are registered later, but before the first request.
  dependencies: ['observe', 'headers'],
})
