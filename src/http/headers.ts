import { IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import fastifyCors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import helmet from 'helmet'

/** What helmet sets, rendered once: it is the same for every answer, also for those before any hook runs. */
export const SECURITY_HEADERS = renderOnce(
  helmet({
    // Answers are data: nothing in them may run, load or be framed, even if a browser is made to render one.
    contentSecurityPolicy: {
      useDefaults: false,
      directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"], sandbox: [] },
    },
    strictTransportSecurity: { maxAge: 31_536_000, includeSubDomains: true },
    referrerPolicy: { policy: 'no-referrer' },
    frameguard: { action: 'deny' },
  }),
)

function renderOnce(middleware: ReturnType<typeof helmet>): OutgoingHttpHeaders {
  const request = new IncomingMessage(new Socket())
  const response = new ServerResponse(request)
  middleware(request, response, (error) => {
    if (error) throw error
  })
  return { ...response.getHeaders() }
}

/** What every answer carries. */
async function plugin(
  app: FastifyInstance,
  { dashboardOrigins }: { dashboardOrigins: string[] },
): Promise<void> {
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(SECURITY_HEADERS)
    reply.header('cache-control', 'no-store')
    reply.header('x-request-id', request.id)
    done()
  })
  let closing = false
  app.addHook('preClose', async () => {
    closing = true
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    // Whoever is answered while draining has to go on elsewhere.
    if (closing) reply.header('connection', 'close')
    done(null, payload)
  })
  if (dashboardOrigins.length > 0) {
    await app.register(fastifyCors, {
      // Given the list, the plugin would tell other origins everything but their own name.
      origin: (origin, callback) =>
        callback(null, origin !== undefined && dashboardOrigins.includes(origin) && origin),
      credentials: true,
      methods: ['GET', 'POST', 'DELETE'],
      allowedHeaders: ['authorization', 'content-type', 'idempotency-key', 'x-session-mode'],
      exposedHeaders: ['ratelimit', 'ratelimit-policy', 'retry-after', 'x-request-id'],
      maxAge: 600,
      // It would refuse an OPTIONS that is no preflight in plain text.
      strictPreflight: false,
    })
  }
}

export const headersPlugin = fp(plugin, { name: 'headers' })
