import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import type { Duplex } from 'node:stream'
import type { FastifyBaseLogger } from 'fastify'
import { Problem, statusOf, toReply } from '../errors.ts'
import { newId, type System } from '../system.ts'
import type { CommonHeaders } from './headers.ts'

/** The public HTTP server: how long a sender can take, and what is answered where there is no valid request. */

const MAX_HEADER_BYTES = 16 * 1024
/** How long a refused sender can go on before the connection is closed: closing it with bytes unread would reset
 * it, and the sender would lose our answer (RFC 9112, section 9.6). */
const LINGER_MS = 1_000

interface Options {
  system: System
  commonHeaders: CommonHeaders
  log(): FastifyBaseLogger
}

/** The latest answer on a connection, and the one before it. */
interface Answers {
  latest: ServerResponse
  before: ServerResponse | undefined
}

export function createListener(handle: RequestListener, options: Options): Server {
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      // Slow senders: the whole request in 5 s, looked at twice a second.
      headersTimeout: 5_000,
      requestTimeout: 5_000,
      connectionsCheckingInterval: 500,
      keepAliveTimeout: 72_000,
      // Node would answer a missing Host without a word; see framing.ts.
      requireHostHeader: false,
    },
    handle,
  )
  server.setTimeout(30_000)
  // Only 100-continue has a meaning; Node would answer any other expectation without a word.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('connect', (_request, socket) => {
    const problem = new Problem('method_not_allowed', 'This is no proxy.', { headers: { allow: '' } })
    refuse(socket, problem, LINGER_MS, options)
  })
  answerParserErrors(server, options)
  return server
}

/**
 * Answers what Node's parser refuses, which it tells by its codes. The connection is closed, since what follows
 * on it cannot be trusted (RFC 9112, section 11.2). Requests before it are answered first.
 */
function answerParserErrors(server: Server, options: Options): void {
  const answersOn = new WeakMap<Duplex, Answers>()
  const closing = new WeakSet<Duplex>()
  server.on('request', ({ socket }: IncomingMessage, response) => {
    answersOn.set(socket, { latest: response, before: answersOn.get(socket)?.latest })
  })
  server.on('clientError', (error: Error & { code?: string }, socket) => {
    if (closing.has(socket)) return
    closing.add(socket)
    const problem = toProblem(error)
    if (!problem) {
      socket.destroy()
      return
    }
    // The parser still reads what a slow sender sends: without an end it could finish a request that was refused.
    const lingerMs = problem.code === 'request_timeout' ? 0 : LINGER_MS
    const { latest, before } = answersOn.get(socket) ?? {}
    afterClose(latest?.req.complete ? latest : before, () => {
      // A defect before the end of the latest request is that request's own, and this is its answer. If it was
      // answered before all of it had come, a second answer would be taken for that of another request.
      if (latest?.headersSent && !latest.req.complete) {
        afterClose(latest, () => end(socket, '', lingerMs))
      } else refuse(socket, problem, lingerMs, options)
    })
  })
}

function refuse(
  socket: Duplex,
  problem: Problem,
  lingerMs: number,
  { system, commonHeaders, log }: Options,
): void {
  // Its last answer said `Connection: close` already, or the peer is gone.
  if (!socket.writable) return
  const requestId = newId(system)
  const status = statusOf(problem.code)
  const ipAddress = 'remoteAddress' in socket ? socket.remoteAddress : undefined
  log().info({ requestId, status, ipAddress, code: problem.code })
  const body = JSON.stringify(toReply(problem, requestId))
  const headers = {
    ...commonHeaders(requestId),
    'content-type': 'application/problem+json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
    ...problem.extras.headers,
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  end(socket, [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n'), lingerMs)
}

function end(socket: Duplex, answer: string, lingerMs: number): void {
  socket.end(answer, () => setTimeout(() => socket.destroy(), lingerMs).unref())
}

/** Acts once that answer is sent; at once if it is already, or there is none. */
function afterClose(answer: ServerResponse | undefined, act: () => void): void {
  if (!answer || answer.closed) act()
  else answer.once('close', act)
}

/** Null for a broken connection, which is nobody to answer. */
function toProblem({ code = '' }: { code?: string }): Problem | null {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Problem('request_timeout', 'The request took too long to arrive.')
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new Problem('headers_too_large', 'The request line and headers are larger than 16 KiB.')
  }
  return code.startsWith('HPE_') ? new Problem('malformed_http', 'The request is not valid HTTP.') : null
}
