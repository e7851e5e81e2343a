import type { OutgoingHttpHeaders } from 'node:http'
import fastifyCors from '@fastify/cors'
import fastifyHelmet from '@fastify/helmet'
import fastify, { type FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'

/** The headers of every answer. Where no hook runs, problems.ts and the listener add them. */
export type CommonHeaders = (requestId: string) => OutgoingHttpHeaders

export async function createCommonHeaders(): Promise<CommonHeaders> {
  const security = await renderSecurityHeaders()
  return (requestId) => ({ ...security, 'cache-control': 'no-store', 'x-request-id': requestId })
}

/** Helmet's headers are the same for every answer, so a separate app renders them once, with a 404. */
async function renderSecurityHeaders(): Promise<OutgoingHttpHeaders> {
  const app = fastify()
  await app.register(fastifyHelmet, {
    // Answers are data: nothing in them can run, load or be framed, even if a browser renders one.
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

const plugin: FastifyPluginAsync<{ commonHeaders: CommonHeaders }> = async (app, { commonHeaders }) => {
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(commonHeaders(request.id))
    done()
  })
  let isClosing = false
  app.addHook('preClose', async () => {
    isClosing = true
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    // A client that is answered while the service drains must use another instance next.
    if (isClosing) reply.header('connection', 'close')
    done(null, payload)
  })
}

const cors: FastifyPluginAsync<{ dashboardOrigins: string[] }> = async (app, { dashboardOrigins }) => {
  if (dashboardOrigins.length === 0) return
  await app.register(fastifyCors, {
    // With the list, the plugin would send other origins all CORS headers except the one with the origin.
    origin: (origin, callback) =>
      callback(null, origin !== undefined && dashboardOrigins.includes(origin) ? origin : false),
    credentials: true,
    methods: ['GET', 'POST', 'PATCH', 'DELETE'],
    allowedHeaders: ['authorization', 'content-type', 'idempotency-key', 'x-session-id', 'x-session-mode'],
    exposedHeaders: ['ratelimit', 'ratelimit-policy', 'retry-after', 'x-request-id'],
    maxAge: 600,
    // Otherwise the plugin would answer an OPTIONS that is not a preflight with plain text.
    strictPreflight: false,
  })
}

export const headersPlugin = fp(plugin, { name: 'headers' })
export const corsPlugin = fp(cors, { name: 'cors', dependencies: ['headers'] })
