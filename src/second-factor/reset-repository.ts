import { updatingUser } from '../company/repository.ts'
import type { Tx } from '../database/connect.ts'
import { consumeMailedCode } from './codes-repository.ts'

const TABLES = ['second_factor_challenges', 'second_factors', 'recovery_codes', 'mailbox_codes'] as const

/** For a factor reset, or an undone first factor. Lock the member first. */
export async function deleteAllOf(tx: Tx, companyId: string, userId: string): Promise<void> {
  await updatingUser(tx, companyId, userId)
    .set({ second_factors: [], wrong_codes: 0, passkey_handle: null })
    .execute()
  for (const table of TABLES)
    await tx.deleteFrom(table).where('company_id', '=', companyId).where('user_id', '=', userId).execute()
}

/** No password matches an empty hash. */
export async function clearPassword(tx: Tx, companyId: string, userId: string): Promise<void> {
  await updatingUser(tx, companyId, userId).set({ password_hash: '', locked_out_at: null }).execute()
}

/** For a new email: removes the code of the previous mailbox, and the unconfirmed app that it allowed. */
export async function forgetMailboxProofs(tx: Tx, companyId: string, userId: string): Promise<void> {
  await consumeMailedCode(tx, companyId, userId)
  await tx
    .deleteFrom('second_factors')
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('confirmed_at', 'is', null)
    .where('mailbox_proven', '=', true)
    .execute()
}
