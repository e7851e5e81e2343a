import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import { Counter, Gauge, type Registry } from 'prom-client'
import { Problem } from '../errors.ts'
import { type BodyBudget, createBodyBudget } from './body-budget.ts'
import { connectionLimit } from './connection-limit.ts'
import { createTrust, readIpAddress, type Trust } from './forwarded.ts'
import { faultOf, MAX_UNUSED_BYTES, unusedBody } from './framing.ts'
import { ipAddressOfMessage, networkOfIpAddress, setIpAddress } from './network.ts'
import { createProvenNetworks, type ProvenNetworks } from './proven-networks.ts'
import { announcedBytes, endAndClose, readBody, releaseAtEnd } from './read-body.ts'
import {
  type AnswerOptions,
  answerParserErrors,
  LINGER_MS,
  lingerIfUnread,
  refuse,
  renderProblem,
} from './refusals.ts'
import { inTurns, waitOf } from './turns.ts'
import { closeUnread } from './unread.ts'

/**
 * The public HTTP server: what happens to a request before the app sees it. The ideas of this room:
 *
 * - A client is known by its IP address (forwarded.ts: that of the peer, or the one that a trusted proxy forwards), and
 *   is counted by its network (network.ts: an IPv4 address or an IPv6 /64; the wider network is the IPv6 /48).
 * - A fair queue (fair-queue.ts) serves wider networks in turn, in each its networks, in each its devices. A turn queue
 *   has two of them: a half of the slots for those who are known, and a half for strangers.
 * - A network is proven (proven-networks.ts) for a day after a credential from it held. Here, these are known.
 * - Turns (turns.ts): the event loop begins requests for a millisecond at a time, in the order of a turn queue. So the
 *   database's replies to others are read between the requests of a flood. A flood from many networks has half of the
 *   turns at most while proven networks wait. What finds no slot is shed: answered 503.
 * - The body budget (body-budget.ts) bounds what bodies take of the memory until their requests are answered.
 *   read-body.ts reads them within it, and frees at once what nobody will read.
 * - Framing (framing.ts): messages that Node's parser accepts, but that a proxy could have read differently, are refused.
 *   refusals.ts answers those that the parser refuses, and those that are shed, which the app never sees.
 * - Unread answers (unread.ts) end with their connection, after ten seconds or when they are too many bytes.
 *
 * Connections as such (how many, how fast, how slow, pipelined) are the reverse proxy's: deploy/haproxy.cfg. It learns
 * from a header of our answers which networks are proven. Without it, Node's timeouts and bounds remain.
 *
 * The app gets requests from `serve`, and asks the listener about them.
 */

const MAX_HEADER_BYTES = 16 * 1024
/** Node's own limit: what it refuses has no origin, so browsers would hide the 431 from pages. */
const MAX_PARSED_HEADER_BYTES = 2 * MAX_HEADER_BYTES

export interface ListenerOptions extends AnswerOptions {
  registry: Registry
  /** The proxies that are believed about their clients: IP addresses and CIDRs. */
  trustProxy: string[]
  databasePoolSize: number
}

export interface Listener {
  serve(handle: RequestListener): Server
  /** Why a request is refused that Node's parser accepts. */
  faultOf(message: IncomingMessage): Problem | null
  /** Whether a peer that is no trusted proxy says for whom it asks. */
  ignoresForwarded(message: IncomingMessage): boolean
  /** Milliseconds that a request waited for its turn. */
  waitOf(message: IncomingMessage): number
  /**
   * Finds room for a body, and returns what reads it.
   * @throws Problem overloaded; when it is read also payload_too_large, or an error of the connection
   */
  openBody(message: IncomingMessage, answer: ServerResponse, limit: number): () => Promise<Buffer>
  /** Of a GET or HEAD that announces a body. @throws Problem malformed_http */
  passUnusedBody(message: IncomingMessage, answer: ServerResponse): Promise<void>
  /**
   * A credential held: the requests of its network do not wait for those of strangers. Returns whether to tell the
   * peer, which is a trusted proxy.
   */
  prove(message: IncomingMessage): boolean
}

export function createListener(options: ListenerOptions): Listener {
  const isTrusted = createTrust(options.trustProxy)
  const provenNetworks = createProvenNetworks(options.system)
  const budget = createBodyBudget()
  new Gauge({
    name: 'gatehouse_body_bytes',
    help: 'Bytes of request bodies in memory',
    registers: [options.registry],
    collect() {
      this.set(budget.bytes)
    },
  })
  const openBody: Listener['openBody'] = (message, answer, limit) => {
    const holding = budget.open(networkOfMessage(message), Math.min(announcedBytes(message), limit))
    releaseAtEnd(holding, answer, message.socket)
    return () => readBody(message, limit, holding)
  }
  return {
    serve: (handle) => serve(handle, { ...options, isTrusted, provenNetworks, budget }),
    faultOf: (message) => faultOf(message, MAX_HEADER_BYTES),
    ignoresForwarded({ headers, socket: { remoteAddress: peer } }) {
      return headers['x-forwarded-for'] !== undefined && peer !== undefined && !isTrusted(peer)
    },
    waitOf,
    openBody,
    async passUnusedBody(message, answer) {
      const isChunked = message.headers['transfer-encoding'] !== undefined
      if (!isChunked && announcedBytes(message) <= MAX_UNUSED_BYTES) return
      await openBody(message, answer, MAX_UNUSED_BYTES)().catch((error: unknown) => {
        throw error instanceof Problem && error.code === 'payload_too_large' ? unusedBody(message) : error
      })
    },
    prove(message) {
      provenNetworks.add(networkOfMessage(message))
      return isTrusted(message.socket.remoteAddress)
    },
  }
}

const networkOfMessage = (message: IncomingMessage) => networkOfIpAddress(ipAddressOfMessage(message))

interface Options extends ListenerOptions {
  /** Whether this peer is a proxy whose connections are those of many clients. */
  isTrusted: Trust
  provenNetworks: ProvenNetworks
  budget: BodyBudget
}

function serve(handle: RequestListener, options: Options): Server {
  const server = createServer({
    maxHeaderSize: MAX_PARSED_HEADER_BYTES,
    // Slow senders: the whole request must arrive within 5 s. Node checks twice a second.
    headersTimeout: 5_000,
    requestTimeout: 5_000,
    connectionsCheckingInterval: 500,
    keepAliveTimeout: 72_000,
    // framing.ts refuses a missing Host. Node would answer it without a body.
    requireHostHeader: false,
  })
  server.maxConnections = connectionLimit(options.databasePoolSize)
  closeUnread(server, options)
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
      const { method, headers: received } = message
      const about = { ipAddress: ipAddressOfMessage(message), method, origin: received.origin }
      const { status, headers, body } = renderProblem(problem, about, options)
      // Otherwise the next comes at once, which this cannot keep up with.
      response.writeHead(status, { ...headers, connection: 'close' })
      // To linger is too much work for strangers: until it is closed, a connection reads a megabyte at once.
      if (isProven) {
        lingerIfUnread(message)
        response.end(body)
      } else endAndClose(response, body)
    },
  })
  server.on('request', begin)
  server.setTimeout(30_000)
  // Expectations other than 100-continue are ignored. Node would answer them without a body.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('connect', (_request, socket) => {
    const problem = new Problem('method_not_allowed', 'This is no proxy.', { headers: { allow: '' } })
    refuse(socket, problem, { lingerMs: LINGER_MS }, options)
  })
  answerParserErrors(server, options)
  return server
}
