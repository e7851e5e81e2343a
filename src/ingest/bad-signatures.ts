import { LruMap } from 'toad-cache'
import { rateLimited } from '../limits/answer.ts'
import type { Limit, LimitState, Limits } from '../limits/list.ts'
import type { MemoryCounter } from '../limits/memory.ts'
import { type ByNetwork, byNetwork } from '../limits/subject.ts'
import type { System } from '../system.ts'

/**
 * Counts invalid signatures by network. Companies can share one, so a company that sent a valid signature
 * within 24 h has its own counter. A stranger can use up that one, so some requests are still verified.
 */

const KNOWN_MS = 24 * 3_600_000
const MAX_KNOWN = 50_000

/** `companyId` is what the request names before its signature is verified, or empty. */
export interface ClaimedSender {
  network: string
  companyId: string
}

interface Options<Request> {
  limits: Pick<Limits, 'badSignatures' | 'signatureChecks'>
  counterOf(
    limit: Limit,
    subjectOf: (request: Request) => readonly string[] | ByNetwork,
  ): MemoryCounter<Request>
  senderOf(request: Request): ClaimedSender
  system: Pick<System, 'now'>
}

export function createBadSignatures<Request>({ limits, counterOf, senderOf, system }: Options<Request>) {
  /** When a signature of the company from this network was last valid. */
  const validAt = new LruMap<number>(MAX_KNOWN)
  const counter = counterOf(limits.badSignatures, (request) => {
    const { network, companyId } = senderOf(request)
    return isKnown(request) ? byNetwork(network, companyId) : byNetwork(network)
  })
  /** Invalid signatures that were verified beyond that limit. */
  const checks = counterOf(limits.signatureChecks, (request) => {
    const { network, companyId } = senderOf(request)
    return [companyId, network]
  })

  function isKnown(request: Request): boolean {
    const at = validAt.get(keyOf(senderOf(request)))
    return at !== undefined && system.now() - at < KNOWN_MS
  }

  return {
    isKnown,
    /** Refuses before the body is read. @throws Problem rate_limited */
    async admit(request: Request): Promise<void> {
      const usedUp = await counter.usedUp(request)
      if (!usedUp) return
      const exceeded = isKnown(request) ? await checks.usedUp(request) : usedUp
      if (exceeded) throw rateLimited(exceeded)
    },
    /** `wasVerified` is false for headers that are no signature. @throws Problem rate_limited, also if others were faster */
    async count(request: Request, wasVerified: boolean): Promise<LimitState> {
      const { state, isExceeded } = await counter.consume(request)
      if (!isExceeded) return state
      if (!isKnown(request)) throw rateLimited(state)
      if (!wasVerified) return state
      const check = await checks.consume(request)
      if (check.isExceeded) throw rateLimited(check.state)
      return state
    },
    noteValid: (request: Request) => validAt.set(keyOf(senderOf(request)), system.now()),
  }
}

function keyOf({ network, companyId }: ClaimedSender): string {
  return `${network} ${companyId}`
}
