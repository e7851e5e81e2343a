import { createServer, type RequestListener, type Server } from 'node:http'
import type { Registry } from 'prom-client'
import { Problem } from '../errors.ts'
import { type AnswerOptions, answerParserErrors, LINGER_MS, refuse } from './refusals.ts'
import { closeUnread } from './unread.ts'

/**
 * The HTTP servers: what happens to a request before Fastify has it. The rest of this room:
 *
 * - framing.ts refuses messages that Node's parser accepts, but that a proxy could have read differently; refusals.ts answers
 *   those that the parser refuses.
 * - network.ts finds the client's IP address, and the network by which it is counted: an IPv4 address or an IPv6 /64.
 * - bodies.ts reads bodies within a bounded memory, and frees what nobody will read.
 * - unread.ts ends responses that clients do not take.
 *
 * Connections (how many, how fast, how slow), and how many requests of strangers are in progress, are the reverse proxy's:
 * deploy/haproxy.cfg. It learns from a header of our responses which networks are known.
 */

export const MAX_HEADER_BYTES = 16 * 1024
/** Node's own limit: what it refuses has no origin, so browsers would hide the 431 from pages. */
const MAX_PARSED_HEADER_BYTES = 2 * MAX_HEADER_BYTES
/** A proxy asks the platform listener with the headers of its clients, and understands no 431: more than proxies take themselves. */
const MAX_PLATFORM_HEADER_BYTES = 64 * 1024

interface Options extends AnswerOptions {
  registry: Registry
  /** False for the platform listener, which only a private network reaches. */
  isPublic: boolean
}

export function serve(handle: RequestListener, { isPublic, ...options }: Options): Server {
  const server = createServer(
    {
      maxHeaderSize: isPublic ? MAX_PARSED_HEADER_BYTES : MAX_PLATFORM_HEADER_BYTES,
      // Slow senders: the whole request must arrive within 5 s. Node checks twice a second.
      headersTimeout: 5_000,
      requestTimeout: 5_000,
      connectionsCheckingInterval: 500,
      // Longer than proxies keep idle connections, so that they close them first.
      keepAliveTimeout: 72_000,
      // framing.ts refuses a missing Host. Node would answer it without a body.
      requireHostHeader: false,
    },
    handle,
  )
  // Expectations other than 100-continue are ignored. Node would answer them without a body.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('connect', (_request, socket) => {
    const problem = new Problem('method_not_allowed', 'This is no proxy.', { headers: { allow: '' } })
    refuse(socket, problem, { lingerMs: LINGER_MS }, options)
  })
  answerParserErrors(server, options)
  if (isPublic) {
    server.setTimeout(30_000)
    closeUnread(server, options)
  }
  return server
}
