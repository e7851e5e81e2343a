import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { collectDefaultMetrics, Histogram, Registry } from 'prom-client'
import { ipAddressOf } from '../limits/client.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Values that guards and handlers add to the request's log line; never a credential. */
    logContext: { code?: string; companyId?: string; userId?: string; sessionId?: string }
  }
}

/** Writes one log line and one measurement per request: route, client, status, duration. */
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

/** The pattern, not the URL: the client chooses the URL, so it can contain secrets. */
function routeOf(request: FastifyRequest): string {
  return request.routeOptions.url ?? 'none'
}

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
