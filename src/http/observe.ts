import type { FastifyInstance, FastifyLoggerOptions, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { type DestinationStream, type LoggerOptions, pino } from 'pino'
import { collectDefaultMetrics, Histogram, Registry } from 'prom-client'
import { codeOf, constraintOf } from '../database/faults.ts'
import { clientAddress } from './limits.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What guards and handlers found out, for the request's log line. Never anything that opens a door. */
    facts: { code?: string; companyId?: string; userId?: string; sessionId?: string }
  }
}

/** Log settings: JSON, times in UTC, and of an error nothing that a caller's data could be in. */
export function logSettings(level: string, stream?: DestinationStream): FastifyLoggerOptions & LoggerOptions {
  return {
    level,
    ...(stream && { stream }),
    timestamp: pino.stdTimeFunctions.isoTime,
    base: { service: 'gatehouse' },
    serializers: {
      err(error: unknown) {
        if (!(error instanceof Error)) return { type: typeof error, message: '', stack: '' }
        const code = codeOf(error)
        // The texts of the database's errors quote values; a code and a constraint say enough.
        const fromDatabase = code !== undefined && /^[0-9A-Z]{5}$/.test(code)
        const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
        return {
          type: error.name,
          message: fromDatabase ? '' : error.message,
          stack: frames.join('\n'),
          code,
          constraint: constraintOf(error),
        }
      },
    },
  }
}

/**
 * Standard output, written in blocks: a system call for each line would be felt by each request. A line is
 * out after a tenth of a second at the latest; whoever ends the process calls `end` first. An output that is
 * broken or full stops nobody: lines that it does not take are lost, and what must not be is audited.
 */
export function createLogStream() {
  const stream = pino.destination({
    dest: 1,
    sync: true,
    minLength: 8_192,
    periodicFlush: 100,
    maxLength: 1_048_576,
  })
  stream.on('error', () => {})
  return stream
}

/** One log line and one observation a request: which route was asked by whom, how it ended, how long it took. */
async function plugin(app: FastifyInstance, { registry }: { registry: Registry }): Promise<void> {
  const duration = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the request to its answer',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers: [registry],
  })
  app.decorateRequest('facts')
  app.addHook('onRequest', (request, _reply, done) => {
    request.facts = {}
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    const { method } = request
    duration.labels(method, routeOf(request), String(reply.statusCode)).observe(reply.elapsedTime / 1000)
    logAnswer(request, reply, request.facts)
    done()
  })
}

/** The pattern, not the URL: a URL is the caller's, and may hold what they should not have put there. */
function routeOf(request: FastifyRequest): string {
  return request.routeOptions.url ?? 'none'
}

/** The one line that a request leaves in the log. */
export function logAnswer(
  request: FastifyRequest,
  reply: FastifyReply,
  facts: Partial<FastifyRequest['facts']>,
): void {
  request.log.info({
    requestId: request.id,
    method: request.method,
    route: routeOf(request),
    status: reply.statusCode,
    ms: Math.round(reply.elapsedTime * 100) / 100,
    address: clientAddress(request),
    ...facts,
  })
}

export const observePlugin = fp(plugin, { name: 'observe' })

export function createRegistry(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  return registry
}
