import { checkPassword } from '../company/checks.ts'
import { createOpaque } from '../crypto/opaque.ts'
import type { PasswordHasher } from '../crypto/password.ts'
import type { Person } from '../crypto/password-policy.ts'
import type { Tx } from '../database/connect.ts'
import type { Context } from '../http/context.ts'
import { issuePrintedReset } from '../one-time-token/service.ts'
import type { System } from '../system.ts'

/**
 * The first password of an account that an operator creates: given by the operator, or chosen by the person, who gets a link. No
 * password is generated, since whoever saw it printed could use it for good.
 */

/** No password matches it. */
const NONE = ''

/** @throws Problem invalid_request */
export async function hashFirstPassword(
  context: Pick<Context, 'isBreached'> & { hasher: PasswordHasher },
  password: string | undefined,
  person: Person,
): Promise<string> {
  if (password === undefined) return NONE
  await checkPassword('password', password, person, context)
  return await context.hasher.hash(password)
}

export interface LinkContext {
  system: System
  config: { cell: string | undefined; pagesUrl: string }
}

/** Nothing if the account has a password. */
export async function linkToFirstPassword(
  tx: Tx,
  { system, config }: LinkContext,
  companyId: string,
  { email, passwordHash, now }: { email: string; passwordHash: string; now: number },
): Promise<{ link?: string; linkExpiresAt?: Date }> {
  if (passwordHash !== NONE) return {}
  const opaque = createOpaque(config.cell, system.randomBytes)
  const { token, expiresAt } = await issuePrintedReset(tx, opaque, companyId, { email, now })
  return { link: `${config.pagesUrl}/reset-password#token=${token}`, linkExpiresAt: expiresAt }
}
