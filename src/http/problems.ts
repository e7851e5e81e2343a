import type { Socket } from 'node:net'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { HashingOverload } from '../crypto/password.ts'
import { isUnavailable } from '../database/faults.ts'
import { catalogue, Problem, type ProblemCode, statusOf, toReply } from '../errors.ts'
import { newId, type System } from '../system.ts'
import { limitHeaders } from './limits.ts'

/** Every refusal becomes problem details (RFC 9457); what nobody foresaw becomes a bare 500 and a log line. */

const FRAMEWORK: Record<string, [ProblemCode, string]> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'Send the body as application/json in UTF-8.'],
  FST_ERR_CTP_BODY_TOO_LARGE: ['payload_too_large', 'The body is larger than this endpoint takes.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['malformed_http', 'The body is not as long as Content-Length says.'],
  FST_ERR_BAD_URL: ['invalid_request', 'The path contains a broken %-escape.'],
  FST_ERR_MAX_PARAM_LENGTH: ['not_found', 'There is nothing at this path.'],
}

function isFastifyError(error: unknown): error is FastifyError {
  return error instanceof Error && 'code' in error
}

function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  if (error instanceof HashingOverload) {
    return new Problem('overloaded', 'Too many sign-ins at once; try again in a moment.', {
      retryAfterSeconds: 1,
    })
  }
  if (isUnavailable(error)) {
    return new Problem('unavailable', 'The service cannot reach its database; try again in a moment.', {
      retryAfterSeconds: 1,
      cause: error,
    })
  }
  if (isFastifyError(error)) {
    if (error.validation) {
      const where = error.validationContext === 'body' ? '' : `/${error.validationContext ?? ''}`
      const errors = error.validation.slice(0, 10).map(({ instancePath, keyword, params, message }) => {
        const name = keyword === 'required' ? params['missingProperty'] : params['additionalProperty']
        return {
          path: `${where}${instancePath}${typeof name === 'string' ? `/${name}` : ''}`,
          message: keyword === 'additionalProperties' ? 'is not known here' : (message ?? 'is not valid'),
        }
      })
      return new Problem('invalid_request', 'The request does not have the form that this endpoint takes.', {
        errors,
      })
    }
    const known = FRAMEWORK[error.code]
    if (known) return new Problem(...known)
    if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) {
      return new Problem('malformed_http', 'The request is not valid HTTP.')
    }
  }
  return new Problem('internal_error', 'Something went wrong here; the request id helps to find out what.', {
    cause: error,
  })
}

/** RFC 6750, section 3: no error code for a caller who sent no credential. */
function challenge(code: ProblemCode, detail: string): string {
  const realm = 'Bearer realm="gatehouse"'
  return code === 'missing_credentials' || code === 'invalid_credentials' || code === 'invalid_signature'
    ? realm
    : `${realm}, error="invalid_token", error_description="${detail.replace(/["\\]/g, '')}"`
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

async function plugin(app: FastifyInstance): Promise<void> {
  const methodsByPath = new Map<string, { pattern: RegExp; methods: Set<string> }>()
  app.addHook('onRoute', ({ url, method }) => {
    const pattern = new RegExp(`^${url.replaceAll('.', '\\.').replace(/:\w+/g, '[^/]+')}$`)
    const known = methodsByPath.get(url) ?? { pattern, methods: new Set() }
    for (const one of [method].flat()) known.methods.add(one)
    methodsByPath.set(url, known)
  })

  app.setErrorHandler(async (error, request, reply) => {
    let problem = toProblem(error)
    if (problem.code === 'internal_error' || problem.code === 'unavailable') {
      request.log[problem.code === 'unavailable' ? 'warn' : 'error']({ err: problem.cause }, problem.code)
    }
    const [status, category] = catalogue[problem.code]
    // Guessing is counted; sign-in and signatures have counters of their own.
    if (category === 'authentication' && !/^invalid_(credentials|signature)$/.test(problem.code)) {
      problem = await app.limits.refusal(request).then(() => problem, toProblem)
    }
    request.facts.code = problem.code
    if (status === 400 && problem.code === 'malformed_http') reply.header('connection', 'close')
    return sendProblem(problem, request, reply)
  })

  app.setNotFoundHandler(
    { preHandler: (request: FastifyRequest, reply: FastifyReply) => app.limits.anonymous(request, reply) },
    async (request) => {
      const [path = ''] = request.url.split('?')
      const allowed = new Set(
        [...methodsByPath.values()]
          .filter(({ pattern }) => pattern.test(path))
          .flatMap(({ methods }) => [...methods]),
      )
      if (allowed.size > 0 || request.method === 'TRACE') {
        const allow = [...allowed].sort().join(', ')
        throw new Problem('method_not_allowed', `This path takes ${allow || 'no such method'}.`, {
          headers: { allow },
        })
      }
      throw new Problem('not_found', 'There is nothing at this path.')
    },
  )
}

/** Answers what the router refused before any hook ran: a path with a broken %-escape. */
export function answerRouterError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  reply.headers({
    'cache-control': 'no-store',
    'x-request-id': request.id,
    'x-content-type-options': 'nosniff',
  })
  sendProblem(toProblem(error), request, reply)
}

export const problemsPlugin = fp(plugin, { name: 'problems', dependencies: ['limits'] })

/**
 * Answers what Node's parser refused, when there is no request yet: told by the parser's codes. The
 * connection is closed, since what follows on it cannot be trusted (RFC 9112, section 11.2).
 */
export function createClientErrorHandler(system: System) {
  return (error: Error & { code?: string }, socket: Socket): void => {
    const problem =
      error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? new Problem('request_timeout', 'The request took too long to arrive.')
        : error.code === 'HPE_HEADER_OVERFLOW'
          ? new Problem('headers_too_large', 'The request line and headers are larger than 16 KiB.')
          : new Problem('malformed_http', 'The request is not valid HTTP.')
    if (!socket.writable || error.code === 'ECONNRESET') {
      socket.destroy()
      return
    }
    const requestId = newId(system)
    const body = JSON.stringify(toReply(problem, requestId))
    socket.end(
      [
        `HTTP/1.1 ${statusOf(problem.code)} ${catalogue[problem.code][2]}`,
        'Content-Type: application/problem+json; charset=utf-8',
        `Content-Length: ${Buffer.byteLength(body)}`,
        'Cache-Control: no-store',
        'X-Content-Type-Options: nosniff',
        `X-Request-Id: ${requestId}`,
        'Connection: close',
        '',
        body,
      ].join('\r\n'),
    )
  }
}
