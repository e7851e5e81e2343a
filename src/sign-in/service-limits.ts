import type { Account } from '../company/account.ts'
import type { LimitState } from '../errors.ts'
import { type ClaimedSender, createKnownSenders, createRefusedCredentials } from '../limits/known-senders.ts'
import type { MemoryCounter } from '../limits/memory.ts'
import type { System } from '../system.ts'

/**
 * What bounds sign-ins by service passwords. A fleet starts behind one network, so correct ones do not count there. Each leaves
 * a session, so they count by service account, and on a trial by company. A wrong one counts as a refused credential. It cannot
 * be guessed, so no account counts it.
 */

/** For one request. */
export interface ServiceLimits {
  /** Before any look-up. @throws Problem rate_limited */
  admit(): Promise<void>
  /** Of a wrong password. @throws Problem rate_limited */
  countRefusal(): Promise<LimitState>
  /** Of a correct one. */
  noteHeld(account: Pick<Account, 'companyId' | 'companyHandle'>): void
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
      noteHeld({ companyId, companyHandle }) {
        const { network } = senderOf(request)
        for (const company of [companyId, companyHandle ?? ANY, ANY]) known.note({ network, company })
        if (arrivals.delete(request)) anonymous.refund(request)
      },
    }),
  }
}

/** As a request names its company: by id or by handle, of which none has the form of an id. */
export function companyNamedIn(body: { companyId?: string; company?: string }): string {
  return (body.companyId ?? body.company ?? ANY).toLowerCase()
}
