import type { Account } from '../company/account.ts'
import { Problem, rateLimited, withLogContext } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { type Quota, tightest } from '../limits/client.ts'
import { isOurs } from '../limits/counters.ts'
import { isActive } from '../session/session.ts'
import { openSession, type SignedIn } from './opening.ts'
import { type Attempt, findAccount, reasonOf, recordRefusal } from './sign-in.ts'

/** Sign-in by service password: one look-up and one digest, no argon2. A correct one is counted before anything is written. */

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
    servicePassword.noteCorrect(account)
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

/** A sign-in that fails through our fault is refunded. @throws Problem rate_limited */
async function countServiceSignIn<Result>(
  { counters, config: { limits } }: Pick<Context, 'counters' | 'config'>,
  { companyId, userId, subscriptionStatus }: Account,
  { client, now }: Attempt,
  signIn: () => Promise<Result>,
): Promise<Result> {
  const quotas: Quota[] = [{ limit: limits.serviceSignIns, values: [companyId, userId] }]
  if (subscriptionStatus === 'trialing') quotas.push({ limit: limits.trialSignIns, values: [companyId] })
  const remembered = counters.usedUpMemory.find(quotas, now)
  if (remembered) throw withLogContext(remembered, { companyId, userId })
  const { states, usedUp } = await counters.consumeInOrder(quotas, now)
  const uses = quotas.slice(0, states.length)
  const refusing = quotas[states.length]
  if (usedUp && refusing) {
    const refused = rateLimited(usedUp)
    counters.usedUpMemory.note(refusing, refused, now)
    await counters.refund(uses)
    throw withLogContext(refused, { companyId, userId })
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
