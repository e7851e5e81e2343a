import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { catalogue, Problem, type ProblemCode, statusOf, toReply } from '../errors.ts'
import { limitHeaders } from '../limits/answer.ts'
import type { CommonHeaders } from './headers.ts'
import { logAnswer } from './observe.ts'
import { toProblem } from './to-problem.ts'

/** Every refusal becomes problem details (RFC 9457). An unforeseen error becomes a bare 500 and a log line. */
async function plugin(app: FastifyInstance): Promise<void> {
  app.setErrorHandler(async (error, request, reply) => {
    const isCutOff = request.raw.destroyed && !request.raw.complete
    const met = isCutOff ? new Problem('malformed_http', 'The request was cut off.') : toProblem(error)
    logIfOurs(met, request)
    const problem = await countIfRefused(met, request, reply)
    request.logContext.code = problem.code
    // What follows on the connection cannot be trusted, or is not wanted.
    if (problem.code === 'malformed_http' || problem.code === 'headers_too_large') {
      reply.header('connection', 'close')
    }
    return sendProblem(problem, request, reply)
  })

  /** Counts a refused credential, since it may be a guess; sign-in has counters of its own. */
  async function countIfRefused(
    problem: Problem,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<Problem> {
    const [, category] = catalogue[problem.code]
    if (category !== 'authentication' || problem.code === 'invalid_credentials') return problem
    const { badSignature, refusal } = app.limits
    const count = problem.code === 'invalid_signature' ? badSignature : refusal
    return await count(request, reply).then(() => problem, toProblem)
  }
}

/** Logs the cause of what is our own fault; the client learns only the request's id. */
function logIfOurs(problem: Problem, request: FastifyRequest): void {
  if (problem.code !== 'internal_error' && problem.code !== 'unavailable') return
  const level = problem.code === 'unavailable' ? 'warn' : 'error'
  request.log[level]({ requestId: request.id, err: problem.cause }, problem.code)
}

function sendProblem(problem: Problem, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { extras, code } = problem
  const status = statusOf(code)
  if (status === 401) reply.header('www-authenticate', challenge(code, problem.message))
  if (extras.limit) reply.headers(limitHeaders(extras.limit))
  if (extras.retryAfterSeconds !== undefined) reply.header('retry-after', extras.retryAfterSeconds)
  if (extras.headers) reply.headers(extras.headers)
  return reply.code(status).type('application/problem+json; charset=utf-8').send(toReply(problem, request.id))
}

/** RFC 6750, section 3: no error code for a client that sent no credential. */
function challenge(code: ProblemCode, detail: string): string {
  const realm = 'Bearer realm="gatehouse"'
  return code === 'missing_credentials' || code === 'invalid_credentials' || code === 'invalid_signature'
    ? realm
    : `${realm}, error="invalid_token", error_description="${detail.replace(/["\\]/g, '')}"`
}

/** Answers what the router refuses before any hook runs: a path with a broken %-escape. */
export function answerRouterError(commonHeaders: CommonHeaders) {
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
    const problem = toProblem(error)
    reply.headers(commonHeaders(request.id))
    sendProblem(problem, request, reply)
    logAnswer(request, reply, { code: problem.code })
  }
}

export const problemsPlugin = fp(plugin, {
  name: 'problems',
  dependencies: ['observe', 'headers', 'memory-limits'],
})
