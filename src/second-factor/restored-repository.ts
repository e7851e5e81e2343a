import { sql } from 'kysely'
import type { Transaction } from '../database/connect.ts'
import { EVERY_HASH } from './challenges-repository.ts'

/** What a restored backup has forgotten; see restored.ts. */

/** Counts as used: challenges of passkeys that expire until then, and codes of authenticator apps until that step. */
export async function refuseUntilAcrossCompanies(
  tx: Transaction,
  { expiresAt, step }: { expiresAt: Date; step: number },
): Promise<void> {
  await sql`
    insert into used_passkey_challenges as u (challenge_hash, expires_at) values (${EVERY_HASH}, ${expiresAt})
    on conflict (challenge_hash) do update set expires_at = greatest(u.expires_at, excluded.expires_at)`.execute(
    tx,
  )
  await sql`
    update second_factors set last_step = ${step}
    where kind = 'totp' and confirmed_at is not null and last_step < ${step}`.execute(tx)
}
