import type { Transaction } from 'kysely'
import type { Database } from '../database/schema.ts'
import { CHALLENGE_MS } from './challenges.ts'
import { refuseUntilAcrossCompanies, voidChallengesAcrossCompanies } from './restored-repository.ts'
import { lastStepAt } from './totp.ts'

/** What a restored backup has forgotten: which challenges and codes were used. */

/** By which the clocks of instances differ. */
const SKEW_MS = 60_000

/**
 * Makes void what waits for a second factor, and what was given out before for sign-ins by passkey, and codes of
 * authenticator apps that were right until now: for two minutes at most, new ones are refused too. Returns how many
 * challenges and mailed codes there were.
 */
export async function voidProofsAcrossCompanies(
  tx: Transaction<Database>,
  now: number,
): Promise<{ challenges: number; mailedCodes: number }> {
  const expiresAt = new Date(now + CHALLENGE_MS + SKEW_MS)
  await refuseUntilAcrossCompanies(tx, { expiresAt, step: lastStepAt(now + SKEW_MS) })
  return await voidChallengesAcrossCompanies(tx)
}
