import { isIP } from 'node:net'
import rateLimit, { normalizeIP } from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Limit, Limits } from '../config.ts'
import { type LimitState, rateLimited } from '../errors.ts'

/**
 * Limits that shield the machine. Each instance counts them by itself, in memory; those that guard
 * credentials are in database/counters.ts.
 */

/** Counts the request; `reply`, if given, tells the caller where they stand. @throws Problem rate_limited */
type LocalLimit = (request: FastifyRequest, reply?: FastifyReply) => Promise<void>

declare module 'fastify' {
  interface FastifyInstance {
    limits: {
      /** A request without a credential, by address. */
      anonymous: LocalLimit
      /** A request that was refused for its credential, by address. */
      refusal: LocalLimit
      /** A request whose signature did not hold, by address. */
      badSignature: LocalLimit
      /** Counter for requests of one authenticated subject. */
      perSubject(limit: Limit, subjectOf: (request: FastifyRequest) => string): LocalLimit
    }
  }
}

/** How many addresses or subjects one limit counts at a time; beyond it the longest unseen is forgotten. */
const MAX_COUNTED = 50_000

/** Where a request comes from: a proxy that passes on what is no address is not believed. */
export function clientAddress({ ip, socket }: FastifyRequest): string {
  return isIP(ip) ? ip : (socket.remoteAddress ?? 'unknown')
}

/** Whom limits per address count: an IPv4 address or an IPv6 /64, since a /64 is one customer. */
export function addressOf(request: FastifyRequest): string {
  return normalizeIP(clientAddress(request), 64)
}

/** RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers). */
export function limitHeaders({ name, max, windowSeconds, remaining, resetSeconds }: LimitState) {
  return {
    'ratelimit-policy': `"${name}";q=${max};w=${windowSeconds}`,
    ratelimit: `"${name}";r=${remaining};t=${resetSeconds}`,
  }
}

async function plugin(app: FastifyInstance, { limits }: { limits: Limits }): Promise<void> {
  await app.register(rateLimit, { global: false })

  function perSubject(limit: Limit, subjectOf: (request: FastifyRequest) => string): LocalLimit {
    // The plugin's types know no cache here, but its store takes it.
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
    anonymous: perSubject(limits.anonymous, addressOf),
    refusal: perSubject(limits.refusals, addressOf),
    badSignature: perSubject(limits.badSignatures, addressOf),
    perSubject,
  })
}

export const limitsPlugin = fp(plugin, { name: 'limits' })
