import {
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import type { Duplex } from 'node:stream'
import { Problem, statusOf, toReply } from '../errors.ts'
import { newId, type System } from '../system.ts'

/** Answers to messages that the app never sees: those that are not valid HTTP, and those that are shed. */

/** A connection that is closed with unread bytes is reset, and our answer is lost (RFC 9112, section 9.6). */
export const LINGER_MS = 1_000

export interface AnswerOptions {
  system: System
  /** The headers of every response. */
  commonHeaders(requestId: string, origin: string | undefined): OutgoingHttpHeaders
  log(): { info(line: object): void }
}

interface Answers {
  latest: ServerResponse
  before: ServerResponse | undefined
}

/**
 * Answers what Node's parser refuses, after the earlier requests of the connection. Then the connection is closed, since
 * its further bytes cannot be trusted (RFC 9112, section 11.2).
 */
export function answerParserErrors(server: Server, options: AnswerOptions): void {
  const answersOn = new WeakMap<Duplex, Answers>()
  const closing = new WeakSet<Duplex>()
  server.on('request', ({ socket }: IncomingMessage, response) => {
    answersOn.set(socket, { latest: response, before: answersOn.get(socket)?.latest })
  })
  server.on('clientError', (error: Error & { code?: string }, socket) => {
    if (closing.has(socket)) return
    closing.add(socket)
    const problem = problemOf(error)
    if (!problem) {
      socket.destroy()
      return
    }
    // The parser still reads. A slow sender could otherwise complete the request that was refused.
    const lingerMs = problem.code === 'request_timeout' ? 0 : LINGER_MS
    const { latest, before } = answersOn.get(socket) ?? {}
    afterClose(latest?.req.complete ? latest : before, () => {
      // The error is in a request that has an answer already. A second one would seem to answer the next request.
      if (latest?.headersSent && !latest.req.complete) {
        afterClose(latest, () => end(socket, '', lingerMs))
      } else {
        // Of the request whose body is at fault. Headers that are at fault are not known.
        const origin = latest?.req.complete === false ? latest.req.headers.origin : undefined
        refuse(socket, problem, { lingerMs, origin }, options)
      }
    })
  })
}

export function refuse(
  socket: Duplex,
  problem: Problem,
  { lingerMs, origin }: { lingerMs: number; origin?: string | undefined },
  options: AnswerOptions,
): void {
  // The last answer was sent with `Connection: close`, or the sender is gone.
  if (!socket.writable) return
  const ipAddress = 'remoteAddress' in socket ? String(socket.remoteAddress) : undefined
  const { status, headers, body } = renderProblem(problem, { ipAddress, origin }, options)
  const lines = Object.entries({ ...headers, connection: 'close' }).map(
    ([name, value]) => `${name}: ${value}`,
  )
  end(socket, [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n'), lingerMs)
}

/** Also logs it, since the app does not. */
function renderProblem(
  problem: Problem,
  {
    origin,
    ...about
  }: { ipAddress: string | undefined; method?: string | undefined; origin: string | undefined },
  { system, commonHeaders, log }: AnswerOptions,
) {
  const requestId = newId(system)
  const status = statusOf(problem.code)
  log().info({ requestId, status, ...about, code: problem.code })
  const body = JSON.stringify(toReply(problem, requestId))
  const { retryAfterSeconds } = problem.extras
  const headers: OutgoingHttpHeaders = {
    ...commonHeaders(requestId, origin),
    'content-type': 'application/problem+json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }),
    ...problem.extras.headers,
  }
  return { status, headers, body }
}

/** Node closes a connection after its last answer, which is lost if a part of the request is unread: see LINGER_MS. */
export function lingerIfUnread(message: IncomingMessage): void {
  const { socket } = message
  const close = socket.destroySoon
  socket.destroySoon = () => {
    if (message.complete) close.call(socket)
    else end(socket, '', LINGER_MS)
  }
}

function end(socket: Duplex, answer: string, lingerMs: number): void {
  socket.end(answer, () => setTimeout(() => socket.destroy(), lingerMs).unref())
}

function afterClose(answer: ServerResponse | undefined, act: () => void): void {
  if (!answer || answer.closed) act()
  else answer.once('close', act)
}

/** Null for a broken connection, on which no answer can be sent. */
function problemOf({ code = '' }: { code?: string }): Problem | null {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Problem('request_timeout', 'The request took too long to arrive.')
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new Problem('headers_too_large', 'The request line and headers are too large.')
  }
  return code.startsWith('HPE_') ? new Problem('malformed_http', 'The request is not valid HTTP.') : null
}
