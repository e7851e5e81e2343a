import { LruMap } from 'toad-cache'
import { rateLimited } from '../limits/answer.ts'
import { type Limit, type LimitState, stateOf } from '../limits/list.ts'
import type { MemoryCounter } from '../limits/memory.ts'
import { byNetwork } from '../limits/subject.ts'
import { type Counter, createWindows } from '../limits/windows.ts'
import type { System } from '../system.ts'

/**
 * Counts requests whose signature does not hold, by network. Senders of many companies can share a network, and
 * one of them must not shut out the others: where a signature of a company held within 24 h, requests that name
 * this company have a counter of their own. Somebody else in the network can use that up too, so some of its requests
 * go on being verified.
 */

const KNOWN_MS = 24 * 3_600_000
/** Beyond this number, the pair of network and company that was seen least recently is forgotten. */
const MAX_KNOWN = 50_000

/** Where a request comes from, and the company that it names before its signature is verified, if it names one. */
export interface ClaimedSender {
  network: string
  companyId: string | undefined
}

interface Options {
  counter: MemoryCounter
  /** How many signatures of a known pair are verified beyond that. This process counts them for itself. */
  checks: Limit
  system: Pick<System, 'now'>
}

export function createBadSignatures({ counter, checks, system }: Options) {
  /** When a signature of the company held last from this network. */
  const heldAt = new LruMap<number>(MAX_KNOWN)
  const checked = createWindows()

  function isKnown({ network, companyId = '' }: ClaimedSender): boolean {
    const at = heldAt.get(keyOf(network, companyId))
    return at !== undefined && system.now() - at < KNOWN_MS
  }

  function subjectOf(sender: ClaimedSender) {
    const { network, companyId } = sender
    return companyId !== undefined && isKnown(sender) ? byNetwork(network, companyId) : byNetwork(network)
  }

  const checksOf = ({ network, companyId = '' }: ClaimedSender): Counter => ({
    ...checks,
    values: [companyId, network],
  })

  return {
    isKnown,
    /** Refuses before the body is read. @throws Problem rate_limited */
    admit(sender: ClaimedSender): void {
      const usedUp = counter.usedUp(subjectOf(sender))
      if (!usedUp) return
      if (!isKnown(sender)) throw rateLimited(usedUp)
      const now = system.now()
      const { granted, endsAt } = checked.take(checksOf(sender), 1, now)
      if (granted === 0) throw rateLimited(stateOf(checks, 0, endsAt, now))
    },
    /** @throws Problem rate_limited for a stranger who has used up the limit meanwhile */
    async count(sender: ClaimedSender): Promise<LimitState> {
      const subject = subjectOf(sender)
      return (isKnown(sender) && counter.usedUp(subject)) || (await counter.consume(subject))
    },
    /** A signature that held takes nothing of what is verified beyond the limit. */
    noteHeld(sender: ClaimedSender & { companyId: string }): void {
      const { network, companyId } = sender
      heldAt.set(keyOf(network, companyId), system.now())
      if (counter.usedUp(subjectOf(sender))) checked.giveBack(checksOf(sender), system.now())
    },
  }
}

function keyOf(network: string, companyId: string): string {
  return `${network} ${companyId}`
}
