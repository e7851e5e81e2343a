import rateLimit, { type FastifyRateLimitStore, type FastifyRateLimitStoreCtor } from '@fastify/rate-limit'
import type { FastifyInstance, FastifyRequest, onSendHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { LruMap } from 'toad-cache'
import type { Limit, Limits } from '../config/limits.ts'
import { type LimitState, rateLimited } from '../errors.ts'
import type { System } from '../system.ts'
import { type ByNetwork, byClient, networkOf, tightest, widerLimitOf, widerOf } from './client.ts'

/** Limits that protect the machine, so each process counts its own, in memory. */

/** @throws Problem rate_limited */
type MemoryLimit = ((request: FastifyRequest) => Promise<void>) & {
  counter: MemoryCounter
}

interface MemoryCounter<Request = FastifyRequest> {
  read(request: Request): Promise<LimitState>
  /** Undefined if a use is left. */
  usedUp(request: Request): Promise<LimitState | undefined>
  consume(request: Request): Promise<Consumed>
  refund(request: Request): void
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

const MAX_KEYS = 50_000

interface Window {
  uses: number
  endsAt: number
}

/** `current` is above the limit's `max` if a use was refused. */
type Answer = Parameters<FastifyRateLimitStore['incr']>[1]

interface Refundable {
  refund(key: string): void
}

/** The package's store has its own clock, and keeps only 5,000 keys. `onOpen` gets the store of each limit. */
export function createMemoryStore(
  { now }: Pick<System, 'now'>,
  onOpen: (store: Refundable) => void = () => {},
): FastifyRateLimitStoreCtor {
  return class MemoryStore implements FastifyRateLimitStore, Refundable {
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

    refund(key: string): void {
      const window = this.#windows.get(key)
      if (window) window.uses = Math.max(0, window.uses - 1)
    }

    child(): MemoryStore {
      const store = new MemoryStore()
      onOpen(store)
      return store
    }

    #open(key: string, lengthMs: number, time: number): Window | undefined {
      const window = this.#windows.get(key)
      if (!window || window.endsAt <= time) return undefined
      // If it ends later than a new one would, it was started before the clock was set back.
      window.endsAt = Math.min(window.endsAt, time + lengthMs)
      return window
    }
  }
}

type OpenCounter = (limit: Limit, subjectOf: SubjectOf) => Omit<MemoryCounter, 'usedUp'>

function createMemoryCounter(open: OpenCounter, limit: Limit, subjectOf: SubjectOf): MemoryCounter {
  const own = open(limit, subjectOf)
  const wider = open(widerLimitOf(limit), (request) => widerOf(subjectOf(request)) ?? [])
  const hasWider = (request: FastifyRequest) => widerOf(subjectOf(request)) !== undefined
  const countersOf = (request: FastifyRequest) => (hasWider(request) ? [own, wider] : [own])

  async function read(request: FastifyRequest): Promise<LimitState> {
    return tightest(await Promise.all(countersOf(request).map((counter) => counter.read(request))))
  }

  async function usedUp(request: FastifyRequest): Promise<LimitState | undefined> {
    const state = await read(request)
    return state.remaining === 0 ? state : undefined
  }

  async function consumeBoth(request: FastifyRequest): Promise<Consumed> {
    // Both are read before one counts, so that a refused use consumes nothing.
    const state = await usedUp(request)
    if (state) return { state, isExceeded: true }
    const narrow = await own.consume(request)
    if (narrow.isExceeded) return narrow
    const wide = await wider.consume(request)
    return wide.isExceeded ? wide : { state: tightest([narrow.state, wide.state]), isExceeded: false }
  }

  return {
    read,
    usedUp,
    consume: (request) => (hasWider(request) ? consumeBoth(request) : own.consume(request)),
    refund(request) {
      for (const counter of countersOf(request)) counter.refund(request)
    },
  }
}

async function plugin(
  app: FastifyInstance,
  { limits, system }: { limits: Limits; system: System },
): Promise<void> {
  const stores: Refundable[] = []
  app.decorateRequest('limit', null)
  app.decorateRequest('guardLimit', null)
  app.addHook('onSend', reportLimit)
  // The package only counts: its hooks would set different headers.
  await app.register(rateLimit, {
    global: false,
    store: createMemoryStore(system, (store) => stores.push(store)),
  })

  function openCounter(limit: Limit, subjectOf: SubjectOf): Omit<MemoryCounter, 'usedUp'> {
    const keyGenerator = (request: FastifyRequest) => {
      const subject = subjectOf(request)
      return JSON.stringify('network' in subject ? [...subject.about, subject.network] : subject)
    }
    const ask = app.createRateLimit({ max: limit.max, timeWindow: limit.windowSeconds * 1000, keyGenerator })
    const store = stores.at(-1)
    async function answer(request: FastifyRequest, increment: boolean): Promise<Consumed> {
      const answer = await ask(request, { increment })
      if (answer.isAllowed) throw new Error('no request is exempt from a limit')
      const { remaining, ttlInSeconds: resetSeconds, isExceeded } = answer
      return { state: { ...limit, remaining, resetSeconds }, isExceeded }
    }
    return {
      read: async (request) => (await answer(request, false)).state,
      consume: (request) => answer(request, true),
      refund: (request) => store?.refund(keyGenerator(request)),
    }
  }
  const counter = (limit: Limit, subjectOf: SubjectOf) => createMemoryCounter(openCounter, limit, subjectOf)

  function perSubject(limit: Limit, subjectOf: SubjectOf): MemoryLimit {
    const counted = counter(limit, subjectOf)
    const consume = async (request: FastifyRequest) => {
      const { state, isExceeded } = await counted.consume(request)
      if (isExceeded) throw rateLimited(state)
      request.guardLimit = state
    }
    return Object.assign(consume, { counter: counted })
  }
  const perNetwork = (limit: Limit) =>
    perSubject(limit, (request) => byClient({ network: networkOf(request), via: request.via }))

  app.decorate('limits', {
    anonymous: perNetwork(limits.anonymous),
    refusal: perNetwork(limits.refusals),
    perSubject,
    counter,
  })
}

/** RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers). */
const reportLimit: onSendHookHandler = (request, reply, payload, done) => {
  const limit = request.limit ?? request.guardLimit
  if (limit) {
    const { name, max, windowSeconds, remaining, resetSeconds } = limit
    reply.header('ratelimit-policy', `"${name}";q=${max};w=${windowSeconds}`)
    reply.header('ratelimit', `"${name}";r=${remaining};t=${resetSeconds}`)
  }
  done(null, payload)
}

/** For the platform's listener, where the network does not show whose request it is. */
async function unlimited(app: FastifyInstance): Promise<void> {
  const nothing = () => {
    throw new Error('nothing is counted here')
  }
  const counter = { read: nothing, usedUp: nothing, consume: nothing, refund: nothing }
  const none: MemoryLimit = Object.assign(async () => {}, { counter })
  app.decorateRequest('limit', null)
  app.decorateRequest('guardLimit', null)
  app.decorate('limits', { anonymous: none, refusal: none, perSubject: () => none, counter: nothing })
}

export const memoryLimitsPlugin = fp(plugin, { name: 'memory-limits' })
export const noLimitsPlugin = fp(unlimited, { name: 'memory-limits' })

/** Servers whose credential was correct within 24 hours. Strangers on their network cannot keep them out. */

const KNOWN_MS = 24 * 3_600_000
const MAX_KNOWN = 50_000

/** `company` is what the request names before its credential is checked, or empty. */
export interface ClaimedSender {
  network: string
  company: string
}

export function createKnownSenders({ now }: Pick<System, 'now'>) {
  const heldAt = new LruMap<number>(MAX_KNOWN)
  return {
    has(sender: ClaimedSender): boolean {
      const at = heldAt.get(keyOf(sender))
      return at !== undefined && now() - at < KNOWN_MS
    },
    note: (sender: ClaimedSender) => heldAt.set(keyOf(sender), now()),
  }
}

function keyOf({ network, company }: ClaimedSender): string {
  return `${network} ${company}`
}

interface Options<Request> {
  counter: MemoryCounter<Request>
  /** Extra allowance for known senders. */
  checks: MemoryCounter<Request>
  isKnown(request: Request): boolean
}

export function createRefusedCredentials<Request>({ counter, checks, isKnown }: Options<Request>) {
  return {
    /** Refuses before any work. @throws Problem rate_limited */
    async admit(request: Request): Promise<void> {
      const usedUp = await counter.usedUp(request)
      if (!usedUp) return
      const exceeded = isKnown(request) ? await checks.usedUp(request) : usedUp
      if (exceeded) throw rateLimited(exceeded)
    },
    /** `wasChecked` is false for malformed credentials. @throws Problem rate_limited, even after `admit` */
    async count(request: Request, wasChecked: boolean): Promise<LimitState> {
      const { state, isExceeded } = await counter.consume(request)
      if (!isExceeded) return state
      if (!isKnown(request)) throw rateLimited(state)
      if (!wasChecked) return state
      const check = await checks.consume(request)
      if (check.isExceeded) throw rateLimited(check.state)
      return state
    },
  }
}
