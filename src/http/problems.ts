import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { HashingOverload } from '../crypto/password.ts'
import { isUnavailable } from '../database/faults.ts'
import { catalogue, Problem, type ProblemCode, statusOf, toReply } from '../errors.ts'
import { SECURITY_HEADERS } from './headers.ts'
import { limitHeaders } from './limits.ts'
import { logAnswer } from './observe.ts'

/** Every refusal becomes problem details (RFC 9457); what nobody foresaw becomes a bare 500 and a log line. */

const FRAMEWORK: Record<string, [ProblemCode, string]> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'Send the body as application/json in UTF-8.'],
  FST_ERR_CTP_BODY_TOO_LARGE: ['payload_too_large', 'The body is larger than this endpoint takes.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['malformed_http', 'The body is not as long as Content-Length says.'],
  FST_ERR_BAD_URL: ['invalid_request', 'The path contains a broken %-escape.'],
  FST_ERR_MAX_PARAM_LENGTH: ['not_found', 'There is nothing at this path.'],
}

/** In place of the validator's, which speak of schemas. */
const MESSAGES: Record<string, string> = { additionalProperties: 'is not known here', required: 'is missing' }
const FORMATS: Record<string, string> = { email: 'must be an e-mail address', uuid: 'must be a UUID' }

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
      // Of a body that may be left out, or take two forms, only what is wrong within one of the forms helps.
      const helpful = error.validation.filter(
        ({ keyword, params }) => keyword !== 'anyOf' && !(keyword === 'type' && params['type'] === 'null'),
      )
      const errors = (helpful.length > 0 ? helpful : error.validation)
        .slice(0, 10)
        .map(({ instancePath, keyword, params, message }) => {
          const name = keyword === 'required' ? params['missingProperty'] : params['additionalProperty']
          return {
            path: `${where}${instancePath}${typeof name === 'string' ? `/${name}` : ''}`,
            message: MESSAGES[keyword] ?? FORMATS[String(params['format'])] ?? message ?? 'is not valid',
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
    // Of CORS, for preflights to any path.
    if (url === '*') return
    const pattern = new RegExp(`^${url.replaceAll('.', '\\.').replace(/:\w+/g, '[^/]+')}$`)
    const known = methodsByPath.get(url) ?? { pattern, methods: new Set() }
    for (const one of [method].flat()) known.methods.add(one)
    methodsByPath.set(url, known)
  })

  app.setErrorHandler(async (error, request, reply) => {
    const isCutOff = request.raw.destroyed && !request.raw.complete
    let problem = isCutOff ? new Problem('malformed_http', 'The request was cut off.') : toProblem(error)
    if (problem.code === 'internal_error' || problem.code === 'unavailable') {
      const level = problem.code === 'unavailable' ? 'warn' : 'error'
      request.log[level]({ requestId: request.id, err: problem.cause }, problem.code)
    }
    const [, category] = catalogue[problem.code]
    // Guessing is counted; sign-in has counters of its own.
    if (category === 'authentication' && problem.code !== 'invalid_credentials') {
      const { badSignature, refusal } = app.limits
      const count = problem.code === 'invalid_signature' ? badSignature : refusal
      problem = await count(request, reply).then(() => problem, toProblem)
    }
    request.facts.code = problem.code
    // What follows on the connection cannot be trusted, or is not wanted.
    if (problem.code === 'malformed_http' || problem.code === 'headers_too_large') {
      reply.header('connection', 'close')
    }
    return sendProblem(problem, request, reply)
  })

  function notFound({ url, method }: FastifyRequest): Problem {
    const [path = ''] = url.split('?')
    const allowed = new Set(
      [...methodsByPath.values()]
        .filter(({ pattern }) => pattern.test(path))
        .flatMap(({ methods }) => [...methods]),
    )
    if (allowed.size === 0 && method !== 'TRACE') {
      return new Problem('not_found', 'There is nothing at this path.')
    }
    const allow = [...allowed].sort().join(', ')
    return new Problem('method_not_allowed', `This path takes ${allow || 'no such method'}.`, {
      headers: { allow },
    })
  }

  // Before the body, whose form is no concern of a path that does not exist.
  app.addHook('onRequest', (request, reply, done) => {
    if (!request.is404) return done()
    app.limits.anonymous(request, reply).then(() => done(notFound(request)), done)
  })
  // Where a route hands over to it: an OPTIONS that CORS did not answer.
  app.setNotFoundHandler(async (request) => {
    throw notFound(request)
  })
}

/** Answers what the router refused before any hook ran: a path with a broken %-escape. */
export function answerRouterError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  reply.headers({ ...SECURITY_HEADERS, 'cache-control': 'no-store', 'x-request-id': request.id })
  const problem = toProblem(error)
  sendProblem(problem, request, reply)
  logAnswer(request, reply, { code: problem.code })
}

export const problemsPlugin = fp(plugin, { name: 'problems', dependencies: ['limits', 'headers'] })
