import { lastStepAt } from '../crypto/totp.ts'
import type { Transaction } from '../database/connect.ts'
import { CHALLENGE_MS } from './challenges.ts'
import { refuseUntilAcrossCompanies } from './restored-repository.ts'

/** What a restored backup has forgotten: which challenges and codes were used. */

/** By which the clocks of instances differ. */
const SKEW_MS = 60_000

/**
 * Makes void what was given out before for sign-ins by passkey, and codes of authenticator apps that were right until
 * now: for two minutes at most, new ones are refused too.
 */
export async function refuseEarlierProofsAcrossCompanies(tx: Transaction, now: number): Promise<void> {
  const expiresAt = new Date(now + CHALLENGE_MS + SKEW_MS)
  await refuseUntilAcrossCompanies(tx, { expiresAt, step: lastStepAt(now + SKEW_MS) })
}
