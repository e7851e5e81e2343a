import type { OutgoingHttpHeaders } from 'node:http'
import fastifyCors from '@fastify/cors'
import fastifyHelmet from '@fastify/helmet'
import fastify, { type FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

/** The headers that every answer carries, by the id of its request: those of hooks, router and parser alike. */
export type CommonHeaders = (requestId: string) => OutgoingHttpHeaders

export async function createCommonHeaders(): Promise<CommonHeaders> {
  const security = await renderSecurityHeaders()
  return (requestId) => ({ ...security, 'cache-control': 'no-store', 'x-request-id': requestId })
}

/** Helmet's headers. They are the same for every answer, so an app of its own renders them once, with a 404. */
async function renderSecurityHeaders(): Promise<OutgoingHttpHeaders> {
  const app = fastify()
  await app.register(fastifyHelmet, {
    // Answers are data: nothing in them may run, load or be framed, even if a browser is made to render one.
    contentSecurityPolicy: {
      useDefaults: false,
      directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"], sandbox: [] },
    },
    strictTransportSecurity: { maxAge: 31_536_000, includeSubDomains: true },
    referrerPolicy: { policy: 'no-referrer' },
    frameguard: { action: 'deny' },
  })
  const { headers } = await app.inject('/')
  await app.close()
  const isOfAnswer = (name: string) => /^(content-(type|length)|date|connection)$/.test(name)
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !isOfAnswer(name)))
}

interface Options {
  commonHeaders: CommonHeaders
  dashboardOrigins: string[]
}

async function plugin(app: FastifyInstance, { commonHeaders, dashboardOrigins }: Options): Promise<void> {
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(commonHeaders(request.id))
    done()
  })
  let isClosing = false
  app.addHook('preClose', async () => {
    isClosing = true
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    // A client that is answered while the service drains has to go on elsewhere.
    if (isClosing) reply.header('connection', 'close')
    done(null, payload)
  })
  if (dashboardOrigins.length > 0) await app.register(fastifyCors, corsOptions(dashboardOrigins))
}

function corsOptions(dashboardOrigins: string[]) {
  return {
    // Given the list, the plugin would send other origins everything but their own name.
    origin: (origin: string | undefined, callback: (error: null, origin: string | false) => void) =>
      callback(null, origin !== undefined && dashboardOrigins.includes(origin) ? origin : false),
    credentials: true,
    methods: ['GET', 'POST', 'DELETE'],
    allowedHeaders: ['authorization', 'content-type', 'idempotency-key', 'x-session-mode'],
    exposedHeaders: ['ratelimit', 'ratelimit-policy', 'retry-after', 'x-request-id'],
    maxAge: 600,
    // The plugin would refuse an OPTIONS that is no preflight in plain text.
    strictPreflight: false,
  }
}

export const headersPlugin = fp(plugin, { name: 'headers' })
