import { LruMap } from 'toad-cache'
import { type LimitState, rateLimited } from '../errors.ts'
import type { System } from '../system.ts'
import type { MemoryCounter } from './memory.ts'

/**
 * Senders whose credential held within 24 h: servers, by their network and the company that they name. Others of the network
 * can use up the limit of what is refused, so some requests that name this company are checked beyond it.
 */

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
  /** Of what is refused. */
  counter: MemoryCounter<Request>
  /** Of what is refused of known senders, beyond that. */
  checks: MemoryCounter<Request>
  isKnown(request: Request): boolean
}

/** Counts refused credentials; right ones are not counted. */
export function createRefusedCredentials<Request>({ counter, checks, isKnown }: Options<Request>) {
  return {
    /** Refuses before any work. @throws Problem rate_limited */
    async admit(request: Request): Promise<void> {
      const usedUp = await counter.usedUp(request)
      if (!usedUp) return
      const exceeded = isKnown(request) ? await checks.usedUp(request) : usedUp
      if (exceeded) throw rateLimited(exceeded)
    },
    /** `wasChecked` is false for what has not the form of a credential. @throws Problem rate_limited, also if others were faster */
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
