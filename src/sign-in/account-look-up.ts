import { nobodysId, type readNamedCompany } from '../company/handles.ts'
import type { Identity } from '../company/identity-repository.ts'
import { createBatch } from '../database/batch.ts'
import type { CompanyStatus } from '../database/schema.ts'
import type { Context } from '../http/context.ts'
import type { Attempt, KnownClients, Recognition } from '../session/known-clients.ts'
import { type Candidate, findCandidates, type Named, type SignInItem } from './account-look-up-repository.ts'

/** Finds the account that a sign-in names, and whether its client is known for it. */

export interface Found {
  /** Of a handle that no company has, one that no company can have. */
  companyId: string
  /** Null if the company has nobody with this e-mail, or a service password is not that of the account. */
  account: Identity | null
  /** Whose e-mail it is. */
  named: Named | null
  /** Null if there is no such company. */
  companyStatus: CompanyStatus | null
  recognized: Recognition
  /** Null unless the digest is that of a service password of the account that works. */
  passwordEpoch: number | null
}

type NamedCompany = ReturnType<typeof readNamedCompany>

export type LookUpAccount = (
  attempt: Attempt & { company: NamedCompany; email: string },
  /** Of a password of the form of service passwords. */
  digest?: Buffer,
) => Promise<Found>

const NOTHING = {
  companyId: null,
  identity: null,
  named: null,
  companyStatus: null,
  knownUntil: null,
  passwordEpoch: null,
}

export function createAccountLookUp(context: Context & { knownClients: KnownClients }): LookUpAccount {
  const { db, knownClients, measureBatch } = context
  const find = createBatch<SignInItem, Candidate | null>({
    run: measureBatch('sign_ins', (items) => findCandidates(db, items)),
  })
  return async (attempt, digest) => {
    const { company, email } = attempt
    const item = { companyId: null, handle: null, ...company, email, digest: digest ?? null }
    const { identity, named, companyStatus, knownUntil, passwordEpoch, ...found } =
      (await find(item)) ?? NOTHING
    const companyId = found.companyId ?? ('handle' in company ? nobodysId(company.handle) : company.companyId)
    const recognized = knownClients.recognize(companyId, knownUntil, attempt)
    return { companyId, account: identity, named, companyStatus, recognized, passwordEpoch }
  }
}
