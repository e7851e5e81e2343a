import type { Identity } from '../company/identity-repository.ts'
import type { Context } from '../context.ts'
import { createBatch } from '../database/batch.ts'
import type { CompanyStatus } from '../database/schema.ts'
import { type Candidate, findCandidates, type SignInItem } from './account-look-up-repository.ts'
import type { Attempt, KnownClients, Recognition } from './known-clients.ts'

/** Finds the account that a sign-in names, and whether its client is known for it. */

export interface Found {
  /** Null if the company has nobody with this e-mail. */
  account: Identity | null
  /** Null if there is no such company. */
  companyStatus: CompanyStatus | null
  recognized: Recognition
}

export type LookUpAccount = (attempt: Attempt & { companyId: string; email: string }) => Promise<Found>

const NOTHING = {
  identity: null,
  companyStatus: null,
  known: { networkKnownUntil: null, deviceKnownUntil: null },
}

export function createAccountLookUp(context: Context & { knownClients: KnownClients }): LookUpAccount {
  const { db, knownClients, measureBatch } = context
  const find = createBatch<SignInItem, Candidate | null>({
    run: measureBatch('sign_ins', (items) => findCandidates(db, items)),
  })
  return async (attempt) => {
    const { companyId, email } = attempt
    const digests = knownClients.digestsOf(companyId, attempt)
    const { identity, companyStatus, known } = (await find({ companyId, email, ...digests })) ?? NOTHING
    return { account: identity, companyStatus, recognized: knownClients.recognize(known, digests, attempt) }
  }
}
