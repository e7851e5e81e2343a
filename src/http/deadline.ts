import type { FastifyBaseLogger, FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Problem } from '../errors.ts'
import { toProblem } from './problems.ts'

declare module 'fastify' {
  interface FastifyRequest {
    deadline: NodeJS.Timeout | undefined
  }
  interface FastifyContextConfig {
    answerWithinMs?: number
  }
}

/** Clients get a response within 10 s; the rest is for the proxy's queue. */
const ANSWER_WITHIN_MS = 6_000

/** Each wait is bounded, but a request can have several. Fastify's `handlerTimeout` ends with the body (pull request 6725). */
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
      // Ends waits for hashing (limits/admission.ts). A statement in progress continues, because it may be committed.
      ending.abort(problem)
      reply.send(problem)
      reply.log = logOfLate(request)
    }, request.routeOptions.config.answerWithinMs ?? answerWithinMs)
    raw.once('close', () => clearTimeout(request.deadline))
    done()
  })
  // At this point, the response has its status.
  app.addHook('onSend', (request, _reply, _payload, done) => {
    clearTimeout(request.deadline)
    done()
  })
}

function tooLate(): Problem {
  const detail = 'The request took too long and may have completed anyway. Retry after 1 second.'
  return new Problem('unavailable', detail, { retryAfterSeconds: 1, logContext: { reason: 'too_late' } })
}

/** For work that ends after the response. Fastify would log the URL, whose content strangers choose. */
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
