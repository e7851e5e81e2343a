import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { System } from '../system.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Logs a warning for the operator, each message at most once a minute. */
    notice(message: string, details: Record<string, unknown>): void
  }
}

const PAUSE_MS = 60_000

/** Warnings about proxies, pages and other services. Any request can cause them, so they must not fill the log. */
async function plugin(app: FastifyInstance, { system }: { system: System }): Promise<void> {
  const lastAt = new Map<string, number>()
  app.decorate('notice', (message, details) => {
    const now = system.now()
    if (Math.abs(now - (lastAt.get(message) ?? Number.NEGATIVE_INFINITY)) < PAUSE_MS) return
    lastAt.set(message, now)
    app.log.warn(details, message)
  })
}

export const noticesPlugin = fp(plugin, { name: 'notices' })
