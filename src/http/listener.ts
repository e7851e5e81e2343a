import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import type { Duplex } from 'node:stream'
import type { FastifyBaseLogger } from 'fastify'
import { Counter, type Registry } from 'prom-client'
import { Problem, statusOf, toReply } from '../errors.ts'
import { ipAddressOf, setIpAddress } from '../limits/client.ts'
import { networkOfIpAddress } from '../limits/network.ts'
import { newId, type System } from '../system.ts'
import type { BodyBudget } from './body-budget.ts'
import { boundConnections } from './connections.ts'
import { readIpAddress } from './forwarded.ts'
import type { CommonHeaders } from './headers.ts'
import { boundPipelining } from './pipelining.ts'
import type { ProvenNetworks } from './proven-networks.ts'
import { endAndClose } from './read-body.ts'
import { inTurns } from './turns.ts'

/** The public HTTP server: timeouts of slow senders, and answers to messages that are not valid HTTP. */

const MAX_HEADER_BYTES = 16 * 1024
/** A connection that is closed with unread bytes is reset, and our answer is lost (RFC 9112, section 9.6). */
const LINGER_MS = 1_000

interface Options {
  system: System
  registry: Registry
  maxConnections: number
  /** Whether this peer is a proxy whose connections are those of many clients. */
  isTrusted(ipAddress: string | undefined): boolean
  provenNetworks: ProvenNetworks
  budget: BodyBudget
  commonHeaders: CommonHeaders
  log(): FastifyBaseLogger
}

/** The latest answer on a connection, and the one before it. */
interface Answers {
  latest: ServerResponse
  before: ServerResponse | undefined
}

export function createListener(handle: RequestListener, options: Options): Server {
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    // Slow senders: the whole request must arrive within 5 s. Node checks twice a second.
    headersTimeout: 5_000,
    requestTimeout: 5_000,
    connectionsCheckingInterval: 500,
    keepAliveTimeout: 72_000,
    // framing.ts refuses a missing Host. Node would answer it without a body.
    requireHostHeader: false,
  })
  const connections = boundConnections(server, { ...options, max: options.maxConnections })
  const shed = new Counter({
    name: 'gatehouse_requests_shed_total',
    help: 'Requests refused on arrival: too many waited for their turn, or too much of their bodies did',
    labelNames: ['reason'],
    registers: [options.registry],
  })
  const begin = inTurns(handle, {
    ...options,
    networkOf(message) {
      const ipAddress = readIpAddress(message, options.isTrusted)
      setIpAddress(message, ipAddress)
      return networkOfIpAddress(ipAddress)
    },
    refuse({ message, response, problem, shed: reason, isProven }) {
      shed.inc({ reason })
      const about = { ipAddress: ipAddressOf({ raw: message }), method: message.method }
      const { status, headers, body } = renderProblem(problem, about, options)
      // Otherwise the next comes at once, which this cannot keep up with.
      response.writeHead(status, { ...headers, connection: 'close' })
      // To linger is too much work for strangers. Until it is closed, a connection reads a megabyte at once, and all of
      // it is garbage: with 950 such connections a second, collecting it took half a core.
      if (isProven) {
        lingerIfUnread(message)
        response.end(body)
      } else endAndClose(response, body)
    },
  })
  server.on('request', boundPipelining(begin, connections))
  server.setTimeout(30_000)
  // Expectations other than 100-continue are ignored. Node would answer them without a body.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('connect', (_request, socket) => {
    const problem = new Problem('method_not_allowed', 'This is no proxy.', { headers: { allow: '' } })
    refuse(socket, problem, LINGER_MS, options)
  })
  answerParserErrors(server, options)
  return server
}

/**
 * Answers the messages that Node's parser refuses, by its error code. Earlier requests of the connection are
 * answered first. Then it is closed, since its further bytes cannot be trusted (RFC 9112, section 11.2).
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
    // The parser still reads. A slow sender could otherwise complete the request that was refused.
    const lingerMs = problem.code === 'request_timeout' ? 0 : LINGER_MS
    const { latest, before } = answersOn.get(socket) ?? {}
    afterClose(latest?.req.complete ? latest : before, () => {
      // An error before the end of the latest request concerns that request, and this is its answer. If it
      // has an answer already, the sender would take a second one for the answer to another request.
      if (latest?.headersSent && !latest.req.complete) {
        afterClose(latest, () => end(socket, '', lingerMs))
      } else refuse(socket, problem, lingerMs, options)
    })
  })
}

/** Answers on a connection whose further bytes are not read as requests. */
function refuse(socket: Duplex, problem: Problem, lingerMs: number, options: Options): void {
  // The last answer was sent with `Connection: close`, or the sender is gone.
  if (!socket.writable) return
  const ipAddress = 'remoteAddress' in socket ? String(socket.remoteAddress) : undefined
  const { status, headers, body } = renderProblem(problem, { ipAddress }, options)
  const lines = Object.entries({ ...headers, connection: 'close' }).map(
    ([name, value]) => `${name}: ${value}`,
  )
  end(socket, [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n'), lingerMs)
}

/** The answer to what the app never sees, which it cannot log either. */
function renderProblem(
  problem: Problem,
  about: { ipAddress: string | undefined; method?: string | undefined },
  { system, commonHeaders, log }: Options,
) {
  const requestId = newId(system)
  const status = statusOf(problem.code)
  log().info({ requestId, status, ...about, code: problem.code })
  const body = JSON.stringify(toReply(problem, requestId))
  const { retryAfterSeconds } = problem.extras
  const headers: OutgoingHttpHeaders = {
    ...commonHeaders(requestId),
    'content-type': 'application/problem+json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }),
    ...problem.extras.headers,
  }
  return { status, headers, body }
}

/** Node closes a connection after its last answer, which is lost if a part of the request is unread: see LINGER_MS. */
function lingerIfUnread(message: IncomingMessage): void {
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

/** Calls `act` when the answer is sent; at once if it is sent already or there is none. */
function afterClose(answer: ServerResponse | undefined, act: () => void): void {
  if (!answer || answer.closed) act()
  else answer.once('close', act)
}

/** Null for a broken connection, on which no answer can be sent. */
function toProblem({ code = '' }: { code?: string }): Problem | null {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Problem('request_timeout', 'The request took too long to arrive.')
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new Problem('headers_too_large', 'The request line and headers are larger than 16 KiB.')
  }
  return code.startsWith('HPE_') ? new Problem('malformed_http', 'The request is not valid HTTP.') : null
}
