import { isActive } from '../company/account.ts'
import type { Identity } from '../company/identity-fragments.ts'
import { replacePasswordHash } from '../company/identity-repository.ts'
import type { Context } from '../context.ts'
import type { PasswordHasher } from '../crypto/password.ts'

interface Attempt {
  account: Identity | null
  find(): Promise<Identity | null>
  password: string
  hasher: PasswordHasher
  /** Whether any password fails, after the work of a wrong one. */
  isBarred: boolean
}

export async function matchPassword(
  context: Pick<Context, 'db'>,
  attempt: Attempt,
): Promise<Identity | null> {
  const { account, find, password, hasher, isBarred } = attempt
  const matched = (await verify(hasher, account, password)) && !isBarred ? account : null
  const isDue = matched?.emailVerifiedAt && isActive(matched) && hasher.isOutdated(matched.passwordHash)
  // Of several renewals at the same time one succeeds; the others must match the hash that it has stored.
  const current =
    matched && isDue ? ((await renewHash(context, matched, attempt)) ?? (await matchAgain())) : matched
  return current && isActive(current) ? current : null

  async function matchAgain(): Promise<Identity | null> {
    const renewed = await find()
    return (await verify(hasher, renewed, password)) ? renewed : null
  }
}

async function verify(hasher: PasswordHasher, account: Identity | null, password: string): Promise<boolean> {
  return await hasher.verify(account?.passwordHash, password)
}

/** Null if the stored hash has changed meanwhile. */
async function renewHash(
  { db }: Pick<Context, 'db'>,
  account: Identity,
  { hasher, password }: Attempt,
): Promise<Identity | null> {
  const after = await hasher.hash(password)
  const change = { before: account.passwordHash, after }
  const isRenewed = await replacePasswordHash(db, account.companyId, account.userId, change)
  return isRenewed ? { ...account, passwordHash: after } : null
}
