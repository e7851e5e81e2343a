import { type Account, isActive } from '../company/account.ts'
import { Problem, rateLimited, withLogContext } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { type Quota, tightest } from '../limits/client.ts'
import { isOurs } from '../limits/counters.ts'
import { type ClaimedSender, createKnownSenders, createRefusedCredentials } from '../limits/known-senders.ts'
import type { MemoryCounter } from '../limits/memory.ts'
import type { System } from '../system.ts'
import { type Attempt, findAccount, reasonOf, recordRefusal, type ServiceLimits } from './attempt.ts'
import { openSession, type SignedIn } from './opening.ts'

/** Sign-in by service password: one look-up and one digest. What is correct is counted before it writes anything. */

/** @throws Problem permission_denied, rate_limited, invalid_credentials */
export async function signInService(context: Context, attempt: Attempt): Promise<SignedIn> {
  const { servicePassword } = attempt
  const named = 'companyId' in attempt.company ? attempt.company : {}
  await servicePassword.admit().catch((error: unknown) => {
    throw error instanceof Problem ? withLogContext(error, named) : error
  })
  const found = await findAccount(context, attempt)
  const { account, passwordEpoch, recognized } = found
  if (account && passwordEpoch !== null && isActive(account)) {
    servicePassword.noteHeld(account)
    const signedIn = await countServiceSignIn(context, account, attempt, async () => {
      if (attempt.mode === 'cookie')
        throw await recordRefusal(context, attempt, found, { reason: 'token_mode_only' })
      const { password: _password, servicePassword: _limits, ...request } = attempt
      const opening = { ...request, recognized, amr: ['pwd'], refunds: [], passwordEpoch }
      return await openSession(context, account, opening)
    })
    if (signedIn) return signedIn
  }
  const refused = await recordRefusal(context, attempt, found, {
    reason: reasonOf(found, { isBarred: false }),
  })
  attempt.client.noteLimit(await servicePassword.countRefusal())
  throw refused
}

/** For all instances. A sign-in that fails by our fault does not count. @throws Problem rate_limited */
async function countServiceSignIn<Result>(
  { counters, config: { limits } }: Pick<Context, 'counters' | 'config'>,
  { companyId, userId, subscriptionStatus }: Account,
  { client, now }: Attempt,
  signIn: () => Promise<Result>,
): Promise<Result> {
  const quotas: Quota[] = [{ limit: limits.serviceSignIns, values: [companyId, userId] }]
  if (subscriptionStatus === 'trialing') quotas.push({ limit: limits.trialSignIns, values: [companyId] })
  const remembered = counters.usedUpMemory.find(quotas, now)
  if (remembered) throw remembered
  const { states, usedUp } = await counters.consumeInOrder(quotas, now)
  const uses = quotas.slice(0, states.length)
  const refusing = quotas[states.length]
  if (usedUp && refusing) {
    const refused = withLogContext(rateLimited(usedUp), { companyId, userId })
    counters.usedUpMemory.note(refusing, refused, now)
    await counters.refund(uses)
    throw refused
  }
  client.noteLimit(tightest(states))
  return await signIn().catch(async (error: unknown) => {
    if (isOurs(error)) {
      client.noteLimit(null)
      await counters.refund(uses, error)
    }
    throw error
  })
}

/**
 * What bounds sign-ins by service passwords. A fleet starts behind one network, so correct ones do not count there. Each leaves
 * a session, so they count by service account, and on a trial by company. A wrong one counts as a refused credential. It cannot
 * be guessed, so no account counts it.
 */

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
