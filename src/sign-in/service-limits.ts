import type { Account } from '../company/account.ts'
import { type ClaimedSender, createKnownSenders, createRefusedCredentials } from '../limits/known-senders.ts'
import type { LimitState } from '../limits/list.ts'
import type { MemoryCounter } from '../limits/memory.ts'
import type { System } from '../system.ts'

/**
 * What bounds sign-ins by service passwords. A fleet starts behind one address, so right ones count for nothing there; a wrong
 * one counts as a refused credential. It cannot be guessed, so nothing counts by account.
 */

/** For one request. */
export interface ServiceLimits {
  /** Before any look-up. @throws Problem rate_limited */
  admit(): Promise<void>
  /** Of a wrong password. @throws Problem rate_limited */
  countRefusal(): Promise<LimitState>
  /** Of a right one; returns what may still be refused. */
  noteHeld(account: Pick<Account, 'companyId' | 'companyHandle'>): Promise<LimitState>
}

interface Options<Request> {
  refusals: MemoryCounter<Request>
  /** Of what is refused beyond that. */
  checks: MemoryCounter<Request>
  anonymous: MemoryCounter<Request>
  /** Needs the body. */
  senderOf(request: Request): ClaimedSender
  system: Pick<System, 'now'>
}

/** In place of a company: any. */
const ANY = ''

export function createServiceLimits<Request extends object>({
  refusals: counter,
  checks,
  anonymous,
  senderOf,
  system,
}: Options<Request>) {
  const known = createKnownSenders(system)
  const refused = createRefusedCredentials<Request>({
    counter,
    checks,
    isKnown: (request) => known.has(senderOf(request)),
  })
  const arrivals = new WeakSet<Request>()

  return {
    /**
     * Before the body is read, which tells whose password it is. Strangers cannot use up what a network has from which servers
     * come: what it sends here has the limits of sign-in.
     */
    async countArrival(request: Request, network: string, count: () => Promise<void>): Promise<void> {
      if (known.has({ network, company: ANY })) return
      await count()
      arrivals.add(request)
    },

    of: (request: Request): ServiceLimits => ({
      admit: () => refused.admit(request),
      countRefusal: () => refused.count(request, true),
      async noteHeld({ companyId, companyHandle }) {
        const { network } = senderOf(request)
        for (const company of [companyId, companyHandle ?? ANY, ANY]) known.note({ network, company })
        if (arrivals.delete(request)) anonymous.refund(request)
        return await counter.read(request)
      },
    }),
  }
}

/** As a request names its company: by id or by handle, of which none has the form of an id. */
export function companyNamedIn(body: { companyId?: string; company?: string }): string {
  return (body.companyId ?? body.company ?? ANY).toLowerCase()
}
