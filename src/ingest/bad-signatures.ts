import type { Limit, Limits } from '../config/limits.ts'
import { type ClaimedSender, createKnownSenders, createRefusedCredentials } from '../limits/known-senders.ts'
import type { MemoryCounter } from '../limits/memory.ts'
import { type ByNetwork, byNetwork } from '../limits/subject.ts'
import type { System } from '../system.ts'

/**
 * Counts invalid signatures by network. Companies can share one, so a company that sent a valid signature
 * within 24 h has its own counter. A stranger can use up that one, so some requests are still verified.
 */

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
  const known = createKnownSenders(system)
  const isKnown = (request: Request) => known.has(senderOf(request))
  const counter = counterOf(limits.badSignatures, (request) => {
    const { network, company } = senderOf(request)
    return isKnown(request) ? byNetwork(network, company) : byNetwork(network)
  })
  const checks = counterOf(limits.signatureChecks, (request) => {
    const { network, company } = senderOf(request)
    return [company, network]
  })
  return {
    isKnown,
    ...createRefusedCredentials({ counter, checks, isKnown }),
    noteValid: (request: Request) => known.note(senderOf(request)),
  }
}
