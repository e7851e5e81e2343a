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
import { SECURITY_HEADERS } from './headers.ts'

/** The public HTTP server: how long a sender may take, and what is answered where there is no request. */

const MAX_HEADER_BYTES = 16 * 1024
/** How long a refused sender may go on, unheard: closing with bytes unread would reset the connection and
 * take our answer with it (RFC 9112, section 9.6). */
const LINGER_MS = 1_000

interface Options {
  system: System
  log(): FastifyBaseLogger
}

/** The latest answer on a connection, and the one before it. */
interface Answers {
  latest: ServerResponse
  before: ServerResponse | undefined
}

export function createListener(handle: RequestListener, { system, log }: Options): Server {
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

  const answersOn = new WeakMap<Duplex, Answers>()
  const closing = new WeakSet<Duplex>()

  server.on('request', ({ socket }: IncomingMessage, response) => {
    answersOn.set(socket, { latest: response, before: answersOn.get(socket)?.latest })
  })
  // Only 100-continue has a meaning; Node would answer any other expectation without a word.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('connect', (_request, socket) => {
    refuse(
      socket,
      new Problem('method_not_allowed', 'This is no proxy.', { headers: { allow: '' } }),
      LINGER_MS,
    )
  })

  /**
   * What Node's parser refused, told by its codes. The connection is closed, since what follows on it
   * cannot be trusted (RFC 9112, section 11.2); requests before it are answered first.
   */
  server.on('clientError', (error: Error & { code?: string }, socket) => {
    if (closing.has(socket)) return
    closing.add(socket)
    const problem = toProblem(error)
    if (!problem) {
      socket.destroy()
      return
    }
    // A slow sender's parser is still at work: what it finished now would be done although we refused it.
    const lingerMs = problem.code === 'request_timeout' ? 0 : LINGER_MS
    const { latest, before } = answersOn.get(socket) ?? {}
    afterClose(latest?.req.complete ? latest : before, () => {
      // A defect before the end of the latest request is that request's own, and this is its answer. If it
      // was answered before all of it had come, a second answer would be taken for another request's.
      if (latest?.headersSent && !latest.req.complete) {
        afterClose(latest, () => end(socket, '', lingerMs))
      } else refuse(socket, problem, lingerMs)
    })
  })

  function refuse(socket: Duplex, problem: Problem, lingerMs: number): void {
    // Its last answer said `Connection: close` already, or the peer is gone.
    if (!socket.writable) return
    const requestId = newId(system)
    const status = statusOf(problem.code)
    const address = 'remoteAddress' in socket ? socket.remoteAddress : undefined
    log().info({ requestId, status, address, code: problem.code })
    const body = JSON.stringify(toReply(problem, requestId))
    const headers = {
      ...SECURITY_HEADERS,
      'cache-control': 'no-store',
      'x-request-id': requestId,
      'content-type': 'application/problem+json; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      connection: 'close',
      ...problem.extras.headers,
    }
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
    const answer = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n')
    end(socket, answer, lingerMs)
  }

  function end(socket: Duplex, answer: string, lingerMs: number): void {
    socket.end(answer, () => setTimeout(() => socket.destroy(), lingerMs).unref())
  }

  return server
}

/** At once if there is no such answer, or it was sent. */
function afterClose(answer: ServerResponse | undefined, act: () => void): void {
  if (!answer || answer.closed) act()
  else answer.once('close', act)
}

/** Null for what is no message of a parser but a broken connection. */
function toProblem({ code = '' }: { code?: string }): Problem | null {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Problem('request_timeout', 'The request took too long to arrive.')
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new Problem('headers_too_large', 'The request line and headers are larger than 16 KiB.')
  }
  return code.startsWith('HPE_') ? new Problem('malformed_http', 'The request is not valid HTTP.') : null
}
