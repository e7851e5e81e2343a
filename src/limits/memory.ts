import rateLimit, { type FastifyRateLimitStore, type FastifyRateLimitStoreCtor } from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { LruMap } from 'toad-cache'
import type { System } from '../system.ts'
import { limitHeaders, rateLimited } from './answer.ts'
import { networkOf } from './client.ts'
import type { Limit, LimitState, Limits } from './list.ts'
import { type ByNetwork, byNetwork, tightest, widerLimitOf, widerOf } from './subject.ts'

/** Limits that protect the machine, so each process counts them by itself, in memory. */

/** Sets the RateLimit headers of `reply`, if given. @throws Problem rate_limited */
type MemoryLimit = (request: FastifyRequest, reply?: FastifyReply) => Promise<void>

export interface MemoryCounter<Request = FastifyRequest> {
  /** Counts nothing. */
  usedUp(request: Request): Promise<LimitState | undefined>
  consume(request: Request): Promise<Consumed>
}

interface Consumed {
  state: LimitState
  isExceeded: boolean
}

type SubjectOf = (request: FastifyRequest) => readonly string[] | ByNetwork

declare module 'fastify' {
  interface FastifyInstance {
    limits: {
      anonymous: MemoryLimit
      refusal: MemoryLimit
      perSubject(limit: Limit, subjectOf: SubjectOf): MemoryLimit
      counter(limit: Limit, subjectOf: SubjectOf): MemoryCounter
    }
  }
}

/** Of one limit. Then the least recently used one is forgotten. */
const MAX_KEYS = 50_000

interface Window {
  uses: number
  endsAt: number
}

/** `current` is above the limit's `max` if a use was refused. */
type Answer = Parameters<FastifyRateLimitStore['incr']>[1]

/** The package's own store has a clock of its own, and forgets all but 5 000 keys. */
export function createMemoryStore({ now }: Pick<System, 'now'>): FastifyRateLimitStoreCtor {
  return class MemoryStore implements FastifyRateLimitStore {
    readonly #windows = new LruMap<Window>(MAX_KEYS)

    incr(key: string, answer: Answer, lengthMs: number, max: number): void {
      const time = now()
      let window = this.#open(key, lengthMs, time)
      if (!window) {
        window = { uses: 0, endsAt: time + lengthMs }
        this.#windows.set(key, window)
      }
      const current = window.uses + 1
      // A refused use does not count.
      window.uses = Math.min(current, max)
      answer(null, { current, ttl: window.endsAt - time })
    }

    read(key: string, answer: Answer, lengthMs: number): void {
      const time = now()
      const window = this.#open(key, lengthMs, time)
      answer(
        null,
        window ? { current: window.uses, ttl: window.endsAt - time } : { current: 0, ttl: lengthMs },
      )
    }

    child(): MemoryStore {
      return new MemoryStore()
    }

    #open(key: string, lengthMs: number, time: number): Window | undefined {
      const window = this.#windows.get(key)
      if (!window || window.endsAt <= time) return undefined
      // If it ends later than a new one would, it was started before the clock was put back.
      window.endsAt = Math.min(window.endsAt, time + lengthMs)
      return window
    }
  }
}

function createMemoryCounter(app: FastifyInstance, limit: Limit, subjectOf: SubjectOf): MemoryCounter {
  const own = createCounter(app, limit, subjectOf)
  const wider = createCounter(app, widerLimitOf(limit), (request) => widerOf(subjectOf(request)) ?? [])
  const hasWider = (request: FastifyRequest) => widerOf(subjectOf(request)) !== undefined

  async function findUsedUp(request: FastifyRequest): Promise<LimitState | undefined> {
    for (const counter of hasWider(request) ? [own, wider] : [own]) {
      const { state } = await counter(request, { increment: false })
      if (state.remaining === 0) return state
    }
    return undefined
  }

  async function consumeBoth(request: FastifyRequest): Promise<Consumed> {
    // Both are read before one counts, so that a refused use consumes nothing.
    const usedUp = await findUsedUp(request)
    if (usedUp) return { state: usedUp, isExceeded: true }
    const narrow = await own(request)
    if (narrow.isExceeded) return narrow
    const wide = await wider(request)
    return wide.isExceeded ? wide : { state: tightest([narrow.state, wide.state]), isExceeded: false }
  }

  return {
    usedUp: findUsedUp,
    consume: (request) => (hasWider(request) ? consumeBoth(request) : own(request)),
  }
}

function createCounter(app: FastifyInstance, limit: Limit, subjectOf: SubjectOf) {
  const ask = app.createRateLimit({
    max: limit.max,
    timeWindow: limit.windowSeconds * 1000,
    keyGenerator(request) {
      const subject = subjectOf(request)
      return JSON.stringify('network' in subject ? [...subject.about, subject.network] : subject)
    },
  })
  return async (request: FastifyRequest, options?: { increment: boolean }): Promise<Consumed> => {
    const answer = await ask(request, options)
    if (answer.isAllowed) throw new Error('no request is exempt from a limit')
    const { remaining, ttlInSeconds: resetSeconds, isExceeded } = answer
    return { state: { ...limit, remaining, resetSeconds }, isExceeded }
  }
}

async function plugin(
  app: FastifyInstance,
  { limits, system }: { limits: Limits; system: System },
): Promise<void> {
  // The package only counts: its own hooks would set other headers than `limitHeaders`.
  await app.register(rateLimit, { global: false, store: createMemoryStore(system) })

  function perSubject(limit: Limit, subjectOf: SubjectOf): MemoryLimit {
    const counter = createMemoryCounter(app, limit, subjectOf)
    return async (request, reply) => {
      const { state, isExceeded } = await counter.consume(request)
      if (isExceeded) throw rateLimited(state)
      reply?.headers(limitHeaders(state))
    }
  }
  const perNetwork = (limit: Limit) => perSubject(limit, (request) => byNetwork(networkOf(request)))

  app.decorate('limits', {
    anonymous: perNetwork(limits.anonymous),
    refusal: perNetwork(limits.refusals),
    perSubject,
    counter: (limit, subjectOf) => createMemoryCounter(app, limit, subjectOf),
  })
}

/** For services of the platform, in the place of the limits: whose request it is decides who asks. */
async function unlimited(app: FastifyInstance): Promise<void> {
  const none: MemoryLimit = async () => {}
  app.decorate('limits', {
    anonymous: none,
    refusal: none,
    perSubject: () => none,
    counter() {
      throw new Error('nothing is counted here')
    },
  })
}

export const memoryLimitsPlugin = fp(plugin, { name: 'memory-limits' })
export const noLimitsPlugin = fp(unlimited, { name: 'memory-limits' })
