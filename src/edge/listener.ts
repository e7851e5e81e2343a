import { createServer, type RequestListener, type Server } from 'node:http'
import type { Registry } from 'prom-client'
import { Problem } from '../errors.ts'
import { type AnswerOptions, answerParserErrors, LINGER_MS, refuse } from './refusals.ts'
import { closeUnread } from './unread.ts'

/** The HTTP servers, before Fastify. The proxy limits connections, and requests of strangers (deploy/haproxy.cfg). */

export const MAX_HEADER_BYTES = 16 * 1024
/** Twice our limit: Node's own 431 has no CORS headers, so browsers would hide it from pages. */
const MAX_PARSED_HEADER_BYTES = 2 * MAX_HEADER_BYTES
/** More than proxies accept: they pass on the headers of their clients here, and do not understand 431. */
const MAX_PLATFORM_HEADER_BYTES = 64 * 1024

interface Options extends AnswerOptions {
  registry: Registry
  isPublic: boolean
}

export function serve(handle: RequestListener, { isPublic, ...options }: Options): Server {
  const server = createServer(
    {
      maxHeaderSize: isPublic ? MAX_PARSED_HEADER_BYTES : MAX_PLATFORM_HEADER_BYTES,
      headersTimeout: 5_000,
      requestTimeout: 5_000,
      connectionsCheckingInterval: 500,
      // Longer than in proxies, so that they close idle connections first.
      keepAliveTimeout: 72_000,
      // framing.ts refuses a missing Host. Node's own response has no body.
      requireHostHeader: false,
    },
    handle,
  )
  // Ignores expectations other than 100-continue, which Node would refuse without a body.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('connect', (_request, socket) => {
    const problem = new Problem(
      'method_not_allowed',
      'CONNECT is not supported: this server is not a proxy.',
      { headers: { allow: '' } },
    )
    refuse(socket, problem, { lingerMs: LINGER_MS }, options)
  })
  answerParserErrors(server, options)
  if (isPublic) {
    server.setTimeout(30_000)
    closeUnread(server, options)
  }
  return server
}
