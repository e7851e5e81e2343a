import { LruMap } from 'toad-cache'
import type { LimitState } from '../limits/list.ts'
import type { MemoryCounter } from '../limits/memory.ts'
import { byNetwork } from '../limits/subject.ts'
import type { System } from '../system.ts'

/**
 * Counts requests whose signature does not hold, by network. Senders of many companies can share a network, and
 * one of them must not shut out the others: where a signature of a company held within 24 h, requests that name
 * this company have a counter of their own.
 */

const KNOWN_MS = 24 * 3_600_000
/** Beyond this number, the pair of network and company that was seen least recently is forgotten. */
const MAX_KNOWN = 50_000

/** Where a request comes from, and the company that it names before its signature is verified, if it names one. */
export interface ClaimedSender {
  network: string
  companyId: string | undefined
}

export function createBadSignatures(counter: MemoryCounter, system: Pick<System, 'now'>) {
  /** When a signature of the company held last from this network. */
  const heldAt = new LruMap<number>(MAX_KNOWN)

  function isKnown({ network, companyId = '' }: ClaimedSender): boolean {
    const at = heldAt.get(keyOf(network, companyId))
    return at !== undefined && system.now() - at < KNOWN_MS
  }

  function subjectOf(sender: ClaimedSender) {
    const { network, companyId } = sender
    return companyId !== undefined && isKnown(sender) ? byNetwork(network, companyId) : byNetwork(network)
  }

  return {
    isKnown,
    /** Refuses before any work. @throws Problem rate_limited */
    check: (sender: ClaimedSender): void => counter.check(subjectOf(sender)),
    /** @throws Problem rate_limited */
    count: (sender: ClaimedSender): Promise<LimitState> => counter.consume(subjectOf(sender)),
    noteHeld(network: string, companyId: string): void {
      heldAt.set(keyOf(network, companyId), system.now())
    },
  }
}

function keyOf(network: string, companyId: string): string {
  return `${network} ${companyId}`
}
