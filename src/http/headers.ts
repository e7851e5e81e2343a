import fastifyCors from '@fastify/cors'
import fastifyHelmet from '@fastify/helmet'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Problem } from '../errors.ts'

const MAX_HEADERS = 100

/** What every answer carries, and what every request's headers must be. */
async function plugin(
  app: FastifyInstance,
  { dashboardOrigins }: { dashboardOrigins: string[] },
): Promise<void> {
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
      origin: dashboardOrigins,
      credentials: true,
      methods: ['GET', 'POST', 'DELETE'],
      allowedHeaders: ['authorization', 'content-type', 'idempotency-key', 'x-session-mode'],
      exposedHeaders: ['ratelimit', 'ratelimit-policy', 'retry-after', 'x-request-id'],
      maxAge: 600,
    })
  }
  app.addHook('onRequest', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    reply.header('x-request-id', request.id)
    const { rawHeaders } = request.raw
    if (rawHeaders.length > 2 * MAX_HEADERS) {
      throw new Problem('headers_too_large', `A request has at most ${MAX_HEADERS} headers.`)
    }
    // Node keeps the first of two; a proxy in front may have believed the second (RFC 9112, section 3.2).
    let hosts = 0
    for (let index = 0; index < rawHeaders.length; index += 2) {
      if (rawHeaders[index]?.length === 4 && rawHeaders[index]?.toLowerCase() === 'host') hosts += 1
    }
    if (hosts > 1) throw new Problem('malformed_http', 'A request has one Host header.')
  })
}

export const headersPlugin = fp(plugin, { name: 'headers' })
