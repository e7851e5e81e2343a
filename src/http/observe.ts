import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Counter, Histogram, type Registry } from 'prom-client'
import { readIpAddress } from '../edge/network.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Added to the request's log line: never a credential. */
    logContext: {
      code?: string
      reason?: string
      limit?: string
      companyId?: string
      userId?: string
      sessionId?: string
      /** Of the session that a platform service asks about. */
      isLive?: boolean
      memberId?: string
      clientId?: string
      /** The service account that named the IP address. */
      via?: string
    }
  }
  interface FastifyContextConfig {
    countedAs?: 'sign_ins' | 'refreshes'
    /** For public routes that consume `limits.anonymous` themselves. */
    hasOwnLimits?: true
  }
}

export function createRequestMeasures(registry: Registry) {
  const duration = new Histogram({
    name: 'gatehouse_http_request_duration_seconds',
    help: 'Time from the request to its response',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers: [registry],
  })
  const countOutcomes = (name: string, what: string) =>
    new Counter({
      name: `gatehouse_${name}_total`,
      help: `${what}, by outcome: success or the error code, with the reason of a refusal or of the end of a session`,
      labelNames: ['outcome', 'reason'],
      registers: [registry],
    })
  const outcomes = {
    sign_ins: countOutcomes('sign_ins', 'Sign-ins'),
    refreshes: countOutcomes('refreshes', 'Refreshes'),
  }
  const limitsHit = new Counter({
    name: 'gatehouse_limits_hit_total',
    help: 'Requests refused because a limit was reached, by limit',
    labelNames: ['limit'],
    registers: [registry],
  })
  return { duration, outcomes, limitsHit }
}

async function plugin(
  app: FastifyInstance,
  { measures }: { measures: ReturnType<typeof createRequestMeasures> },
): Promise<void> {
  const { duration, outcomes, limitsHit } = measures
  app.decorateRequest('logContext')
  app.decorateRequest('ipAddress', '')
  app.decorateRequest('via', null)
  app.addHook('onRequest', (request, _reply, done) => {
    request.logContext = {}
    request.ipAddress = readIpAddress(request)
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    const { method, logContext, routeOptions } = request
    const { code, reason, limit } = logContext
    const { countedAs } = routeOptions.config
    // The pattern, because the URL can contain secrets.
    const { url: route = 'none' } = routeOptions
    const { statusCode: status, elapsedTime: ms } = reply
    duration.labels(method, route, String(status)).observe(ms / 1000)
    if (countedAs) outcomes[countedAs].inc({ outcome: code ?? 'success', ...(reason && { reason }) })
    if (limit) limitsHit.inc({ limit })
    request.log.info({
      requestId: request.id,
      method,
      route,
      status,
      ms: Math.round(ms * 100) / 100,
      ipAddress: request.ipAddress,
      ...logContext,
    })
    done()
  })
}

export const observePlugin = fp(plugin, { name: 'observe' })
