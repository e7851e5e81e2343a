import type { OutgoingHttpHeaders } from 'node:http'
import fastifyCors, { type FastifyCorsOptions } from '@fastify/cors'
import fastifyHelmet from '@fastify/helmet'
import fastify, { type FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'

/** The headers of every response. With an origin, also those of CORS: for the listener, whose responses no hook sees. */
export type CommonHeaders = (requestId: string, origin?: string) => OutgoingHttpHeaders

const EXPOSED = ['ratelimit', 'ratelimit-policy', 'retry-after', 'x-request-id']

export async function createCommonHeaders(dashboardOrigins: string[]): Promise<CommonHeaders> {
  const security = await renderSecurityHeaders()
  return (requestId, origin = '') => ({
    ...security,
    ...(dashboardOrigins.includes(origin) && {
      vary: 'Origin',
      'access-control-allow-origin': origin,
      'access-control-allow-credentials': 'true',
      'access-control-expose-headers': EXPOSED.join(', '),
    }),
    'cache-control': 'no-store',
    'x-request-id': requestId,
  })
}

/** Helmet's headers are the same for every response, so a separate app renders them once, with a 404. */
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
  await app.register(fastifyCors, corsOptions(dashboardOrigins))
}

function corsOptions(dashboardOrigins: string[]): FastifyCorsOptions {
  return {
    // With the list, the plugin would send other origins all CORS headers except the one with the origin.
    origin: (origin, callback) =>
      callback(null, origin !== undefined && dashboardOrigins.includes(origin) ? origin : false),
    credentials: true,
    // Those that a preflight names: tracing libraries add their own.
    methods: ['GET', 'POST', 'PATCH', 'DELETE'],
    exposedHeaders: EXPOSED,
    maxAge: 600,
    // Otherwise the plugin would answer an OPTIONS that is not a preflight with plain text.
    strictPreflight: false,
  }
}

export const headersPlugin = fp(plugin, { name: 'headers' })
export const corsPlugin = fp(cors, { name: 'cors', dependencies: ['headers'] })
