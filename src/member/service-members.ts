import type { Actor } from '../acts.ts'
import { checkName } from '../company/checks.ts'
import { updateUser } from '../company/repository.ts'
import { addUser } from '../company/service.ts'
import type { Context } from '../context.ts'
import type { LimitState } from '../limits/list.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import { asManager, countChangeOf, noSuchMember, onMember, requireRoleFor } from './changes.ts'
import { requireRoomForMember } from './quotas.ts'

/** Servers of a company. They sign in by passwords that admins get shown once, and get no mail. */

const PASSWORD_BYTES = 32
/** Names can be equal, e-mails not. */
const MAX_TRIES = 20

interface NewServiceMember {
  name: string
  role: string
  assignments?: string[] | undefined
}

/** @throws Problem permission_denied, invalid_request, quota_reached, rate_limited, overloaded */
export async function addServiceMember(
  context: Context,
  actor: Actor,
  { role, assignments, ...given }: NewServiceMember,
): Promise<{ id: string; email: string; password: string; limit: LimitState }> {
  const { system, config } = context
  const name = checkName('name', given.name)
  requireRoleFor('service', role)
  return await withNewPassword(context, actor, async ({ password, passwordHash, limit }) => {
    const at = new Date(actor.now)
    const member = { kind: 'service', name, role, assignments, passwordHash } as const
    return await asManager(context, actor, async ({ tx, companyId, audit }) => {
      await requireRoomForMember(tx, companyId, config.quotas)
      for (let tries = 0; tries < MAX_TRIES; tries += 1) {
        const email = `${slugOf(name)}-${fourDigits(system.randomBytes)}@service.invalid`
        const user = { ...member, email, emailVerifiedAt: at, createdAt: at }
        const id = await addUser(tx, system, companyId, user)
        if (id === undefined) continue
        await audit('service_create', { subject: id, details: { role } })
        return { id, email, password, limit }
      }
      throw new Error('no e-mail is free for a service member')
    })
  })
}

/** The sessions that the old one opened are dead. @throws Problem permission_denied, not_found, rate_limited, overloaded */
export async function replacePassword(context: Context, actor: Actor, memberId: string) {
  return await withNewPassword(context, actor, async ({ password, passwordHash, limit }) => {
    await countChangeOf(context, actor, memberId)
    await onMember(context, actor, memberId, async ({ tx, companyId, audit }) => {
      const change = { password_hash: passwordHash, locked_out_at: null }
      const isReplaced = await updateUser(tx, companyId, memberId, change, { kind: 'service' })
      if (!isReplaced) throw noSuchMember()
      await endUserSessions(tx, companyId, memberId, 'password_reset')
      await audit('service_password', { subject: memberId })
    })
    return { password, limit }
  })
}

interface NewPassword {
  password: string
  passwordHash: string
  limit: LimitState
}

/** Counts and makes a password. Hashing takes its time, so it comes before the transaction. */
async function withNewPassword<Result>(
  { counters, config, hasher, system }: Context,
  { session: { companyId }, client: { network }, now }: Actor,
  use: (made: NewPassword) => Promise<Result>,
): Promise<Result> {
  return await counters.consumeFor(config.limits.servicePasswords, [companyId], now, async (limit) => {
    const password = system.randomBytes(PASSWORD_BYTES).toString('base64url')
    const passwordHash = await hasher.inTurn({ network, isKnown: true }).hash(password)
    return await use({ password, passwordHash, limit })
  })
}

/** The words of a name, as far as an e-mail can have them. */
function slugOf(name: string): string {
  const words = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
  return words.slice(0, 40).replace(/-+$/, '') || 'service'
}

function fourDigits(randomBytes: (size: number) => Buffer): string {
  return String(randomBytes(4).readUInt32BE() % 10_000).padStart(4, '0')
}
