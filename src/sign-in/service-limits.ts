import type { Account } from '../company/account.ts'
import { type LimitState, withLogContext } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { createUsedUpMemory, rateLimited } from '../limits/answer.ts'
import { isOurs } from '../limits/counters.ts'
import { type ClaimedSender, createKnownSenders, createRefusedCredentials } from '../limits/known-senders.ts'
import type { MemoryCounter } from '../limits/memory.ts'
import { type Quota, tightest } from '../limits/subject.ts'
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

export type CountServiceSignIn = ReturnType<typeof createServiceSignIns>

/** Correct service passwords, for all instances. A sign-in that fails by our fault does not count. */
export function createServiceSignIns({ counters, config: { limits } }: Pick<Context, 'counters' | 'config'>) {
  const usedUpMemory = createUsedUpMemory()
  /** @throws Problem rate_limited */
  return async <Result>(
    { companyId, userId, subscriptionStatus }: Account,
    now: number,
    signIn: (limit: LimitState) => Promise<Result>,
  ): Promise<Result> => {
    const quotas: Quota[] = [{ limit: limits.serviceSignIns, values: [companyId, userId] }]
    if (subscriptionStatus === 'trialing') quotas.push({ limit: limits.trialSignIns, values: [companyId] })
    const remembered = usedUpMemory.find(quotas, now)
    if (remembered) throw remembered
    const { states, usedUp } = await counters.consumeInOrder(quotas, now)
    const uses = quotas.slice(0, states.length)
    const refusing = quotas[states.length]
    if (usedUp && refusing) {
      const refusal = withLogContext(rateLimited(usedUp), { companyId, userId })
      usedUpMemory.note(refusing, refusal, now)
      await counters.refund(uses)
      throw refusal
    }
    return await signIn(tightest(states)).catch(async (error: unknown) => {
      if (isOurs(error)) await counters.refund(uses, error)
      throw error
    })
  }
}

/** As a request names its company: by id or by handle, of which none has the form of an id. */
export function companyNamedIn(body: { companyId?: string; company?: string }): string {
  return (body.companyId ?? body.company ?? ANY).toLowerCase()
}
