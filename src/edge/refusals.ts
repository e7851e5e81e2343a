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

/** Responses to messages that the app never sees: invalid HTTP, and CONNECT. */

/** Closing a connection with unread bytes resets it, and the response is lost (RFC 9112, section 9.6). */
export const LINGER_MS = 1_000

export interface AnswerOptions {
  system: System
  commonHeaders(requestId: string, origin: string | undefined): OutgoingHttpHeaders
  log(): { info(line: object): void }
  docsUrl: string | undefined
}

interface Answers {
  latest: ServerResponse
  before: ServerResponse | undefined
}

/** Responds after earlier requests, then closes the connection: later bytes are not trustworthy (RFC 9112, section 11.2). */
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
    // The parser still reads, so a slow sender could complete the refused request while the connection lingers.
    const lingerMs = problem.code === 'request_timeout' ? 0 : LINGER_MS
    const { latest, before } = answersOn.get(socket) ?? {}
    afterClose(latest?.req.complete ? latest : before, () => {
      // The faulty request already has a response. A second one would look like the response to the next request.
      if (latest?.headersSent && !latest.req.complete) {
        afterClose(latest, () => end(socket, '', lingerMs))
      } else {
        // Known only if the fault is in the body.
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
  { system, commonHeaders, log, docsUrl }: AnswerOptions,
): void {
  // The last response was sent with `Connection: close`, or the sender is gone.
  if (!socket.writable) return
  const ipAddress = 'remoteAddress' in socket ? String(socket.remoteAddress) : undefined
  const requestId = newId(system)
  const status = statusOf(problem.code)
  log().info({ requestId, status, ipAddress, code: problem.code })
  const body = JSON.stringify(toReply(problem, requestId, docsUrl))
  const headers: OutgoingHttpHeaders = {
    ...commonHeaders(requestId, origin),
    'content-type': 'application/problem+json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    ...problem.extras.headers,
    connection: 'close',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  end(socket, [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n'), lingerMs)
}

/** Node closes the connection after its last response, which is lost if the request has unread bytes: see LINGER_MS. */
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

/** Null for a broken connection, which cannot carry a response. */
function problemOf({ code = '' }: { code?: string }): Problem | null {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Problem('request_timeout', 'The request took too long to arrive. Retry on a new connection.')
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new Problem(
      'headers_too_large',
      'The request line and headers are too large. Send fewer or smaller headers.',
    )
  }
  return code.startsWith('HPE_') ? new Problem('malformed_http', 'The request is not valid HTTP.') : null
}
