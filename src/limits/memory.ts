import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { limitHeaders, rateLimited } from './answer.ts'
import { networkOf } from './client.ts'
import type { Limit, Limits } from './list.ts'

/** Limits that protect the machine. Each instance counts for itself, in memory. */

/** Counts the request, and sets the RateLimit headers of `reply`, if given. @throws Problem rate_limited */
type MemoryLimit = (request: FastifyRequest, reply?: FastifyReply) => Promise<void>

declare module 'fastify' {
  interface FastifyInstance {
    limits: {
      /** A request to a public route or an unknown path, by network. */
      anonymous: MemoryLimit
      /** A request with an invalid or missing credential, by network. */
      refusal: MemoryLimit
      /** A request with an invalid signature, by network. */
      badSignature: MemoryLimit
      /** A limit that counts by the result of `subjectOf`, such as a session or a company. */
      perSubject(limit: Limit, subjectOf: (request: FastifyRequest) => string): MemoryLimit
    }
  }
}

/** Subjects that one limit counts at a time. Beyond that, the least recently seen one is forgotten. */
const MAX_COUNTED = 50_000

async function plugin(app: FastifyInstance, { limits }: { limits: Limits }): Promise<void> {
  await app.register(rateLimit, { global: false })

  function perSubject(limit: Limit, subjectOf: (request: FastifyRequest) => string): MemoryLimit {
    // The plugin's types lack `cache` here, but its store reads it.
    const options = {
      max: limit.max,
      timeWindow: limit.windowSeconds * 1000,
      keyGenerator: subjectOf,
      cache: MAX_COUNTED,
    }
    const count = app.createRateLimit(options)
    return async (request, reply) => {
      const counted = await count(request)
      if (counted.isAllowed) return
      const state = {
        ...limit,
        remaining: counted.remaining,
        resetSeconds: Math.max(1, counted.ttlInSeconds),
      }
      if (counted.isExceeded) throw rateLimited(state)
      reply?.headers(limitHeaders(state))
    }
  }

  app.decorate('limits', {
    anonymous: perSubject(limits.anonymous, networkOf),
    refusal: perSubject(limits.refusals, networkOf),
    badSignature: perSubject(limits.badSignatures, networkOf),
    perSubject,
  })
}

export const memoryLimitsPlugin = fp(plugin, { name: 'memory-limits' })
