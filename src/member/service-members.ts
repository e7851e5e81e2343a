import type { Static } from '@sinclair/typebox'
import { checkName } from '../company/checks.ts'
import { addUser } from '../company/service.ts'
import { generateServicePassword } from '../crypto/opaque.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { ActContext, Actor, Operator } from '../session/acts.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import { asManager, countChangeOf, onMember, requireRoleFor } from './changes.ts'
import { requireRoom } from './invitations.ts'
import type { ServiceMemberBody } from './schemas.ts'
import { replaceServicePassword } from './service-passwords-repository.ts'

/** Service accounts sign in with passwords that admins see once. They get no email. */

/** Names can be equal, but emails cannot. */
const MAX_TRIES = 20

/** @throws Problem permission_denied, invalid_request, quota_reached, rate_limited */
export async function addServiceAccount(
  context: Context,
  actor: Actor,
  { role, assignments, ...given }: Static<typeof ServiceMemberBody>,
): Promise<{ id: string; email: string; password: string }> {
  const { system, config, counters, opaque } = context
  const { companyId, userId: createdBy } = actor.session
  const name = checkName('name', given.name)
  requireRoleFor('service', role)
  return await counters.consumeFor(config.limits.servicePasswords, [companyId], actor, async () => {
    const at = new Date(actor.now)
    const { password, ...stored } = generateServicePassword(opaque)
    const first = { ...stored, at, createdBy, previousValidSeconds: 0 }
    // In releases from before service passwords, nothing matches an empty hash.
    const member = { kind: 'service', name, role, assignments, passwordHash: '' } as const
    return await asManager(context, actor, async ({ tx, audit }) => {
      // No invitation has this email, so all open ones count.
      await requireRoom(tx, companyId, config.quotas, { email: '', now: at })
      for (let tries = 0; tries < MAX_TRIES; tries += 1) {
        const digits = String(system.randomBytes(4).readUInt32BE() % 10_000).padStart(4, '0')
        const email = `${slugOf(name)}-${digits}@service.invalid`
        const user = { ...member, email, emailVerifiedAt: at, createdAt: at }
        const id = await addUser(tx, system, companyId, user)
        if (id === undefined) continue
        await replaceServicePassword(tx, companyId, id, first)
        await audit('service_create', { subject: id, details: { role } })
        return { id, email, password }
      }
      throw new Error('every generated email of the service account was taken')
    })
  })
}

/** @throws Problem permission_denied, not_found, rate_limited */
export async function replacePassword(
  context: Context,
  actor: Actor,
  memberId: string,
  previousValidSeconds: number,
) {
  const { companyId } = actor.session
  const { servicePasswords } = context.config.limits
  return await context.counters.consumeFor(servicePasswords, [companyId], actor, async () => {
    await countChangeOf(context, actor, memberId)
    return await replacePasswordAs(context, actor, memberId, previousValidSeconds)
  })
}

/** @throws Problem permission_denied, session_ended, not_found */
export async function replacePasswordAs(
  context: ActContext & Pick<Context, 'opaque'>,
  actor: Actor | Operator,
  memberId: string,
  previousValidSeconds: number,
) {
  const { password, ...stored } = generateServicePassword(context.opaque)
  const createdBy = 'session' in actor ? actor.session.userId : null
  const next = { ...stored, at: new Date(actor.now), createdBy, previousValidSeconds }
  return await onMember(context, actor, { memberId }, async ({ tx, companyId, audit }) => {
    const previousExpiresAt = await replaceServicePassword(tx, companyId, memberId, next)
    if (previousExpiresAt === undefined)
      throw new Problem(
        'not_found',
        'This member is a person, not a service account. People choose their own passwords.',
      )
    // The previous password has ended. Releases from before service passwords only check sessions.
    if (previousExpiresAt === null) await endUserSessions(tx, companyId, memberId, 'password_reset')
    const details = previousExpiresAt ? { previousExpiresAt } : undefined
    await audit('service_password', { subject: memberId, details })
    return { password, previousExpiresAt }
  })
}

function slugOf(name: string): string {
  const words = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
  return words.slice(0, 40).replace(/-+$/, '') || 'service'
}
