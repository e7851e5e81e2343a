import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { collectDefaultMetrics, Histogram, Registry } from 'prom-client'
import { ipAddressOf } from '../limits/client.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What guards and handlers add to the request's log line. Never anything that opens a door. */
    logContext: { code?: string; companyId?: string; userId?: string; sessionId?: string }
  }
}

/** One log line and one observation per request: which route, from where, how it ended, how long it took. */
async function plugin(app: FastifyInstance, { registry }: { registry: Registry }): Promise<void> {
  const duration = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the request to its answer',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers: [registry],
  })
  app.decorateRequest('logContext')
  app.addHook('onRequest', (request, _reply, done) => {
    request.logContext = {}
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    const { method } = request
    duration.labels(method, routeOf(request), String(reply.statusCode)).observe(reply.elapsedTime / 1000)
    logAnswer(request, reply, request.logContext)
    done()
  })
}

/** The pattern, not the URL: a URL is the client's, and may hold what it should not. */
function routeOf(request: FastifyRequest): string {
  return request.routeOptions.url ?? 'none'
}

/** Writes the one line that a request leaves in the log. */
export function logAnswer(
  request: FastifyRequest,
  reply: FastifyReply,
  logContext: FastifyRequest['logContext'],
): void {
  request.log.info({
    requestId: request.id,
    method: request.method,
    route: routeOf(request),
    status: reply.statusCode,
    ms: Math.round(reply.elapsedTime * 100) / 100,
    ipAddress: ipAddressOf(request),
    ...logContext,
  })
}

export const observePlugin = fp(plugin, { name: 'observe' })

export function createRegistry(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  return registry
}
