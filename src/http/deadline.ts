import type { FastifyBaseLogger, FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Problem } from '../errors.ts'
import { toProblem } from './problems.ts'

declare module 'fastify' {
  interface FastifyRequest {
    deadline: NodeJS.Timeout | undefined
  }
  interface FastifyContextConfig {
    /** Of a route that is meant to wait, in milliseconds. */
    answerWithinMs?: number
  }
}

/**
 * All that a request waits for has a bound, but one can wait for several things. Clients have each answer within 10 s: the
 * rest is for the proxy's queue.
 */
const ANSWER_WITHIN_MS = 6_000

/**
 * Answers 503 when the time is over, counted from the arrival of the request. A statement that has begun goes on, since it may be
 * committed already; what waits for a password's hash or estimate does not (see limits/admission.ts). Fastify's `handlerTimeout`
 * ends with the request's body (its pull request 6725).
 */
async function plugin(
  app: FastifyInstance,
  { answerWithinMs = ANSWER_WITHIN_MS }: { answerWithinMs?: number | undefined },
): Promise<void> {
  app.decorateRequest('overdue')
  app.decorateRequest('deadline')
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = reply
    const ending = new AbortController()
    request.overdue = ending.signal
    request.deadline = setTimeout(() => {
      const problem = tooLate()
      ending.abort(problem)
      reply.send(problem)
      reply.log = logOfLate(request)
    }, request.routeOptions.config.answerWithinMs ?? answerWithinMs)
    raw.once('close', () => clearTimeout(request.deadline))
    done()
  })
  // An answer that has begun has a status, even if its first bytes are still to come.
  app.addHook('onSend', (request, _reply, _payload, done) => {
    clearTimeout(request.deadline)
    done()
  })
}

function tooLate(): Problem {
  const detail = 'The answer took too long; try again in a moment. What you asked for may be done already.'
  return new Problem('unavailable', detail, { retryAfterSeconds: 1, logContext: { reason: 'too_late' } })
}

/** For what ends after the answer. Fastify warns of that, with the URL, in which strangers can write what they like. */
function logOfLate(request: FastifyRequest): FastifyBaseLogger {
  const quiet: Pick<FastifyBaseLogger, 'warn' | 'error'> = {
    warn() {},
    error({ err }: { err?: unknown }) {
      const { code } = toProblem(err)
      if (code === 'internal_error') request.log.error({ requestId: request.id, err }, code)
    },
  }
  return Object.assign(Object.create(request.log), quiet)
}

export const deadlinePlugin = fp(plugin, { name: 'deadline', dependencies: ['observe', 'headers'] })
