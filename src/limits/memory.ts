import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { LruMap } from 'toad-cache'
import type { System } from '../system.ts'
import { limitHeaders, rateLimited } from './answer.ts'
import { networkOf } from './client.ts'
import type { Limit, LimitState, Limits } from './list.ts'
import { byNetwork, type Quota, quotasOf, type Subject, tightest } from './subject.ts'

/** Limits that protect the machine. Each instance counts for itself, in memory. */

/** Counts the request, and sets the RateLimit headers of `reply`, if given. @throws Problem rate_limited */
type MemoryLimit = (request: FastifyRequest, reply?: FastifyReply) => Promise<void>

interface MemoryCounter {
  /** Refuses without counting. @throws Problem rate_limited if the subject has used up the limit */
  check(subject: Subject): void
  /** Counts a use, unless it is refused. @throws Problem rate_limited */
  consume(subject: Subject): LimitState
}

declare module 'fastify' {
  interface FastifyInstance {
    limits: {
      /** A request to a public route or an unknown path, by network. */
      anonymous: MemoryLimit
      /** A request with an invalid or missing credential, by network. */
      refusal: MemoryLimit
      /** A limit that counts by the result of `subjectOf`, such as a session or a company. */
      perSubject(limit: Limit, subjectOf: (request: FastifyRequest) => Subject): MemoryLimit
    }
  }
}

/** Subjects that one limit counts at a time. Beyond that, the least recently seen one is forgotten. */
const MAX_COUNTED = 50_000

interface Window {
  uses: number
  endsAt: number
}

export function createMemoryCounter(limit: Limit, { now: readClock }: Pick<System, 'now'>): MemoryCounter {
  const windows = new LruMap<Window>(MAX_COUNTED)

  function windowOf({ limit: { name, windowSeconds }, values }: Quota, now: number): Window {
    const key = JSON.stringify([name, ...values])
    const found = windows.get(key)
    const lengthMs = windowSeconds * 1000
    if (found && now < found.endsAt) {
      // A window that ends later than a new one was started before the clock was put back.
      found.endsAt = Math.min(found.endsAt, now + lengthMs)
      return found
    }
    const started = { uses: 0, endsAt: now + lengthMs }
    windows.set(key, started)
    return started
  }

  /** Each counter of the subject, with its window. @throws Problem rate_limited if one is used up */
  function open(subject: Subject, now: number): { quota: Quota; window: Window }[] {
    return quotasOf(limit, subject).map((quota) => {
      const window = windowOf(quota, now)
      if (window.uses >= quota.limit.max) throw rateLimited(stateOf(quota.limit, window, now))
      return { quota, window }
    })
  }

  return {
    check(subject) {
      open(subject, readClock())
    },
    consume(subject) {
      const now = readClock()
      // All are checked before one is counted.
      const states = open(subject, now).map(({ quota, window }) => {
        window.uses += 1
        return stateOf(quota.limit, window, now)
      })
      return tightest(states)
    },
  }
}

function stateOf(limit: Limit, { uses, endsAt }: Window, now: number): LimitState {
  const resetSeconds = Math.max(1, Math.ceil((endsAt - now) / 1000))
  return { ...limit, remaining: Math.max(0, limit.max - uses), resetSeconds }
}

async function plugin(
  app: FastifyInstance,
  { limits, system }: { limits: Limits; system: System },
): Promise<void> {
  function perSubject(limit: Limit, subjectOf: (request: FastifyRequest) => Subject): MemoryLimit {
    const counter = createMemoryCounter(limit, system)
    return async (request, reply) => {
      const state = counter.consume(subjectOf(request))
      reply?.headers(limitHeaders(state))
    }
  }
  const perNetwork = (limit: Limit) => perSubject(limit, (request) => byNetwork(networkOf(request)))

  app.decorate('limits', {
    anonymous: perNetwork(limits.anonymous),
    refusal: perNetwork(limits.refusals),
    perSubject,
  })
}

export const memoryLimitsPlugin = fp(plugin, { name: 'memory-limits' })
