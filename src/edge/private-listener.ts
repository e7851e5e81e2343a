import { createServer } from 'node:http'
import { createBodyBudget } from './body-budget.ts'
import { faultOf } from './framing.ts'
import type { Listener, ListenerOptions } from './listener.ts'
import { announcedBytes, readBody, releaseAtEnd } from './read-body.ts'
import { answerParserErrors, lingerIfUnread } from './refusals.ts'

/** The HTTP server of a private network, where peers are the platform's own: nobody waits for turns, and none is proven. */

/** A proxy asks with the headers of its clients, and understands no 431: more than proxies take themselves. */
const MAX_HEADER_BYTES = 64 * 1024

export function createPrivateListener(options: ListenerOptions): Listener {
  const budget = createBodyBudget()
  return {
    serve(handle) {
      const server = createServer(
        {
          maxHeaderSize: MAX_HEADER_BYTES,
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
      answerParserErrors(server, options)
      return server
    },
    faultOf: (message) => faultOf(message),
    ignoresForwarded: () => false,
    waitOf: () => 0,
    openBody(message, answer, limit) {
      const holding = budget.open('', Math.min(announcedBytes(message), limit))
      releaseAtEnd(holding, answer, message.socket)
      return () => readBody(message, limit, holding)
    },
    // Proxies announce the body of the request that they ask about, and often do not send it. What comes later on the connection
    // could be either.
    async passUnusedBody(message, answer) {
      answer.setHeader('connection', 'close')
      lingerIfUnread(message)
    },
    prove: () => false,
  }
}
