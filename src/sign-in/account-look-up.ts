import { nobodysId } from '../company/handles.ts'
import type { Identity } from '../company/identity-repository.ts'
import type { CompanyStatus } from '../database/schema.ts'
import type { Batched, Context } from '../http/context.ts'
import { type Recognition, recognize } from '../session/known-clients.ts'
import { type Candidate, findCandidates, type Named, type SignInItem } from './account-look-up-repository.ts'
import type { Attempt } from './attempt.ts'

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

const NOTHING = {
  companyId: null,
  identity: null,
  named: null,
  companyStatus: null,
  knownUntil: null,
  passwordEpoch: null,
}

const lookUps: Batched<SignInItem, Candidate | null> = {
  name: 'sign_ins',
  run: ({ db }, items) => findCandidates(db, items),
}

export async function findAccount(
  context: Pick<Context, 'inBatch' | 'networkKeys' | 'opaque'>,
  attempt: Attempt,
): Promise<Found> {
  const { company, email, digest } = attempt
  const item = { companyId: null, handle: null, ...company, email, digest }
  const { identity, named, companyStatus, knownUntil, passwordEpoch, ...found } =
    (await context.inBatch(lookUps, item)) ?? NOTHING
  const companyId = found.companyId ?? ('handle' in company ? nobodysId(company.handle) : company.companyId)
  const recognized = recognize(context, companyId, knownUntil, attempt)
  return { companyId, account: identity, named, companyStatus, recognized, passwordEpoch }
}
