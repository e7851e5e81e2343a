import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { System } from '../system.ts'
import { limitHeaders, rateLimited } from './answer.ts'
import { networkOf } from './client.ts'
import { type Limit, type LimitState, type Limits, stateOf } from './list.ts'
import type { Permits } from './permits.ts'
import { byNetwork, quotasOf, type Subject, tightest } from './subject.ts'
import type { Counter } from './windows.ts'

/** Limits that protect the machine. They are counted in memory: see permits.ts. */

/** Counts the request, and sets the RateLimit headers of `reply`, if given. @throws Problem rate_limited */
type MemoryLimit = (request: FastifyRequest, reply?: FastifyReply) => Promise<void>

export interface MemoryCounter {
  /** The state of the limit if the subject has used it up, as far as is known without asking. */
  usedUp(subject: Subject): LimitState | undefined
  /** Counts a use, unless it is refused. @throws Problem rate_limited */
  consume(subject: Subject): Promise<LimitState>
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
      counter(limit: Limit): MemoryCounter
    }
  }
}

export function createMemoryCounter(
  limit: Limit,
  permits: Permits,
  { now: readClock }: Pick<System, 'now'>,
): MemoryCounter {
  const countersOf = (subject: Subject) =>
    quotasOf(limit, subject).map(({ limit, values }): Counter => ({ ...limit, values }))

  function findUsedUp(counters: Counter[], now: number): LimitState | undefined {
    for (const counter of counters) {
      const endsAt = permits.usedUpUntil(counter, now)
      if (endsAt !== undefined) return stateOf(counter, 0, endsAt, now)
    }
    return undefined
  }

  return {
    usedUp: (subject) => findUsedUp(countersOf(subject), readClock()),
    async consume(subject) {
      const now = readClock()
      const counters = countersOf(subject)
      // All are checked before one is counted.
      const usedUp = counters.length > 1 && findUsedUp(counters, now)
      if (usedUp) throw rateLimited(usedUp)
      const states: LimitState[] = []
      for (const counter of counters) {
        const answer = permits.take(counter, now)
        const taken = answer instanceof Promise ? await answer : answer
        if (!taken.isGranted) {
          for (const other of counters.slice(0, states.length)) permits.giveBack(other, now)
          throw rateLimited(stateOf(counter, taken.left, taken.endsAt, now))
        }
        states.push(stateOf(counter, taken.left, taken.endsAt, now))
      }
      return tightest(states)
    },
  }
}

async function plugin(
  app: FastifyInstance,
  { limits, permits, system }: { limits: Limits; permits: Permits; system: System },
): Promise<void> {
  function perSubject(limit: Limit, subjectOf: (request: FastifyRequest) => Subject): MemoryLimit {
    const counter = createMemoryCounter(limit, permits, system)
    return async (request, reply) => {
      const state = await counter.consume(subjectOf(request))
      reply?.headers(limitHeaders(state))
    }
  }
  const perNetwork = (limit: Limit) => perSubject(limit, (request) => byNetwork(networkOf(request)))

  app.decorate('limits', {
    anonymous: perNetwork(limits.anonymous),
    refusal: perNetwork(limits.refusals),
    perSubject,
    counter: (limit) => createMemoryCounter(limit, permits, system),
  })
}

export const memoryLimitsPlugin = fp(plugin, { name: 'memory-limits' })
