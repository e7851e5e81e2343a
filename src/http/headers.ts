import fastifyCors from '@fastify/cors'
import fastifyHelmet from '@fastify/helmet'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

/** What helmet sets below, for answers that are given before any hook runs. */
export const SECURITY_HEADERS = {
  'content-security-policy': "default-src 'none';frame-ancestors 'none';sandbox",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'origin-agent-cluster': '?1',
  'referrer-policy': 'no-referrer',
  'strict-transport-security': 'max-age=31536000; includeSubDomains',
  'x-content-type-options': 'nosniff',
  'x-dns-prefetch-control': 'off',
  'x-download-options': 'noopen',
  'x-frame-options': 'DENY',
  'x-permitted-cross-domain-policies': 'none',
  'x-xss-protection': '0',
}

/** What every answer carries. */
async function plugin(
  app: FastifyInstance,
  { dashboardOrigins }: { dashboardOrigins: string[] },
): Promise<void> {
  app.addHook('onRequest', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    reply.header('x-request-id', request.id)
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
