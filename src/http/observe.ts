import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Counter, Histogram, type Registry } from 'prom-client'
import { readIpAddress } from '../edge/network.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Values that guards and handlers add to the request's log line; never a credential. */
    logContext: {
      code?: string
      reason?: string
      limit?: string
      companyId?: string
      userId?: string
      sessionId?: string
      /** Of the session that one of the platform's services names. */
      isLive?: boolean
      memberId?: string
      /** Of the platform. */
      clientId?: string
    }
  }
  interface FastifyContextConfig {
    countedAs?: 'sign_ins' | 'refreshes'
    /** Of a public route that consumes `limits.anonymous` by itself. */
    hasOwnLimits?: true
  }
}

export type RequestMeasures = ReturnType<typeof createRequestMeasures>

/** Once a process: its apps share them. */
export function createRequestMeasures(registry: Registry) {
  const duration = new Histogram({
    name: 'gatehouse_http_request_duration_seconds',
    help: 'Time from the request to its answer',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers: [registry],
  })
  const outcomes = {
    sign_ins: countOutcomes(registry, 'gatehouse_sign_ins_total', 'Sign-ins'),
    refreshes: countOutcomes(registry, 'gatehouse_refreshes_total', 'Refreshes'),
  }
  const limitsHit = new Counter({
    name: 'gatehouse_limits_hit_total',
    help: 'Requests that were refused because a limit was used up, by limit',
    labelNames: ['limit'],
    registers: [registry],
  })
  return { duration, outcomes, limitsHit }
}

/** Writes one log line and one measurement per request: route, client, status, duration. */
async function plugin(app: FastifyInstance, { measures }: { measures: RequestMeasures }): Promise<void> {
  const { duration, outcomes, limitsHit } = measures
  app.decorateRequest('logContext')
  app.decorateRequest('ipAddress', '')
  app.addHook('onRequest', (request, _reply, done) => {
    request.logContext = {}
    request.ipAddress = readIpAddress(request)
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    observe(request, reply)
    done()
  })

  function observe(request: FastifyRequest, reply: FastifyReply): void {
    const { method } = request
    duration.labels(method, routeOf(request), String(reply.statusCode)).observe(reply.elapsedTime / 1000)
    const { countedAs } = request.routeOptions.config
    const { code, reason, limit } = request.logContext
    if (countedAs) outcomes[countedAs].inc({ outcome: code ?? 'success', ...(reason && { reason }) })
    if (limit) limitsHit.inc({ limit })
    logAnswer(request, reply)
  }
}

function countOutcomes(registry: Registry, name: string, what: string) {
  const help = `${what}, by outcome: success or the code of the error, with the reason of a refusal or of a session's end`
  return new Counter({ name, help, labelNames: ['outcome', 'reason'], registers: [registry] })
}

/** The pattern, not the URL: the client chooses the URL, so it can contain secrets. */
function routeOf(request: FastifyRequest): string {
  return request.routeOptions.url ?? 'none'
}

function logAnswer(request: FastifyRequest, reply: FastifyReply): void {
  request.log.info({
    requestId: request.id,
    method: request.method,
    route: routeOf(request),
    status: reply.statusCode,
    ms: Math.round(reply.elapsedTime * 100) / 100,
    ipAddress: request.ipAddress,
    ...request.logContext,
  })
}

export const observePlugin = fp(plugin, { name: 'observe' })
