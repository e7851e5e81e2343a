import { PLATFORM } from '../audit/entry.ts'
import { checkName } from '../company/checks.ts'
import { invalidField, Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { clientSecrets, SCOPES } from '../platform/clients.ts'
import * as clients from '../platform/repository.ts'
import { voidEarlierProofsAcrossCompanies } from '../second-factor/challenges.ts'
import { resealFactorsAcrossCompanies } from '../second-factor/sealed.ts'
import { type Act, type ActContext, asOperator } from '../session/acts.ts'
import { endSessionsAcrossCompanies } from '../session/ending-repository.ts'
import { resealSecretsAcrossCompanies } from '../signing-secret/service.ts'
import { newId } from '../system.ts'
import { addKey, replaceAllKeys, resealKeys, revokeKey } from '../token/key-rotation.ts'
import {
  beginEventEra,
  deleteAllAcrossCompanies,
  deleteUnsentMailsAcrossCompanies,
} from './deletion-repository.ts'

/** Operators' changes across companies: platform clients, keys, all sessions, a restored backup. @throws Problem not_found */

type KeyContext = ActContext & Pick<Context, 'sealer'>

async function onPlatform<Result>(context: ActContext, work: (act: Act, at: Date) => Promise<Result>) {
  const now = context.system.now()
  return await asOperator(context, { companyId: PLATFORM, now }, (act) => work(act, new Date(now)))
}

/** Only this returns the secret. @throws Problem invalid_request */
export async function createClient(context: ActContext, given: { name: string; scopes: string[] }) {
  const name = checkName('name', given.name)
  const unknown = given.scopes.find((scope) => !SCOPES.some((known) => known === scope))
  if (unknown !== undefined || given.scopes.length === 0)
    throw invalidField('scope', `must be one or more of ${SCOPES.join(', ')}`)
  const scopes = SCOPES.filter((scope) => given.scopes.includes(scope))
  const { secret, secretHash } = newSecret(context)
  const client = { id: newId(context.system), name, scopes }
  await onPlatform(context, async ({ tx, audit }, createdAt) => {
    await clients.insertClient(tx, { ...client, secretHash, createdAt })
    await audit('client_create', { subject: client.id, details: { name, scopes } })
  })
  return { ...client, secret }
}

/** Both secrets work until `finishRotation`, or the next rotation. */
export async function rotateClient(context: ActContext, id: string) {
  const { secret, secretHash } = newSecret(context)
  const client = await onPlatform(context, async ({ tx, audit }) => {
    const rotated = requireClient(await clients.addSecret(tx, id, secretHash))
    await audit('client_rotate', { subject: id })
    return rotated
  })
  return { ...client, secret }
}

export async function finishRotation(context: ActContext, id: string) {
  return await onPlatform(context, async ({ tx, audit }) => {
    const client = requireClient(await clients.removeFormerSecret(tx, id))
    await audit('client_rotate', { subject: id, details: { isFinished: true } })
    return client
  })
}

export async function deleteClient(context: ActContext, id: string): Promise<void> {
  await onPlatform(context, async ({ tx, audit }) => {
    const { name } = requireClient(await clients.deleteClient(tx, id))
    await audit('client_delete', { subject: id, details: { name } })
  })
}

function newSecret({ system }: ActContext) {
  const secrets = clientSecrets(system)
  const secret = secrets.generate()
  const secretHash = secrets.hash(secret)
  if (!secretHash) throw new Error('a generated secret must be valid')
  return { secret, secretHash }
}

function requireClient(client: clients.PlatformClient | undefined): clients.PlatformClient {
  if (client) return client
  throw new Problem('not_found', 'There is no such client. `client list` shows all clients.')
}

/** @throws DecryptionError if a sealed value does not open with the configured master keys */
export async function rotateKeys(context: KeyContext) {
  const { db, sealer } = context
  const resealedSecrets = await resealSecretsAcrossCompanies(db, sealer)
  const resealedFactors = await resealFactorsAcrossCompanies(db, sealer)
  await resealKeys(db, sealer)
  const { keyId, signsFrom } = await onPlatform(context, async ({ tx, audit }, at) => {
    const key = await addKey(tx, context, at)
    await audit('keys_rotate', { subject: key.keyId })
    return key
  })
  return { keyId, signsFrom, resealedSecrets, resealedFactors }
}

/** Retires a leaked key: its tokens fail immediately. If it signs, a new one replaces it. */
export async function retireKey(context: KeyContext, keyId: string) {
  return await onPlatform(context, async ({ tx, audit }, at) => {
    const successor = await revokeKey(tx, context, keyId, at)
    if (successor === undefined)
      throw new Problem(
        'not_found',
        'There is no key with this id, or it is already retired. `keys list` shows all keys.',
      )
    await audit('keys_retire', { subject: keyId })
    return { keyId, replacedBy: successor?.keyId ?? null }
  })
}

export async function endAllSessions(context: ActContext): Promise<number> {
  return await onPlatform(context, async ({ tx, audit }) => {
    const companies = await endSessionsAcrossCompanies(tx, 'ended_by_operator')
    await audit('sessions_end_all')
    return companies
  })
}

/** Run it before an instance starts. @throws DecryptionError, changing nothing, if the backup has different master keys */
export async function settleRestored(context: KeyContext) {
  // First, because no instance can start with the wrong master keys.
  await resealKeys(context.db, context.sealer)
  const voided = await onPlatform(context, async ({ tx, audit }, at) => {
    const companies = await endSessionsAcrossCompanies(tx, 'ended_by_operator')
    const mails = await deleteUnsentMailsAcrossCompanies(tx)
    const links = await deleteAllAcrossCompanies(tx, 'one_time_tokens')
    const invitations = await deleteAllAcrossCompanies(tx, 'invitations')
    await voidEarlierProofsAcrossCompanies(tx, at.getTime())
    const challenges = await deleteAllAcrossCompanies(tx, 'second_factor_challenges')
    const mailedCodes = await deleteAllAcrossCompanies(tx, 'mailbox_codes')
    const { key, revoked: retiredKeys } = await replaceAllKeys(tx, context, at)
    await beginEventEra(tx)
    const counts = { companies, mails, links, invitations, challenges, mailedCodes }
    const details = { ...counts, retiredKeys, newKey: key.keyId }
    await audit('restored', { subject: key.keyId, details })
    return details
  })
  return { ...voided, check: TO_CHECK }
}

const TO_CHECK = [
  'Search the log since the backup for the requests below, with a status under 300. companyId, userId, and memberId show who is affected. If you can still read the previous database, its table audit_events shows the same.',
  'Replaced signing secrets: the previous secret works again, and the newer one is rejected. Generate a new one. In the log: POST /api/auth/webhook-secret/regenerate',
  'Disabled or deleted members, and changed roles: these members are active again, with their previous role. In the log: PATCH /api/auth/members/:id, DELETE /api/auth/members/:id',
  'New companies and members: they are missing. In the log: POST /api/auth/register, POST /api/auth/invitations/accept, POST /api/auth/members',
  'Changed, reset, replaced, and removed passwords: the previous passwords work again. In the log: POST /api/auth/password/change, POST /api/auth/password/reset, POST /api/auth/members/:id/password, DELETE /api/auth/members/:id/second-factors',
  'Changed and restored emails: the previous email signs in and gets the links. In the log: POST /api/auth/email/confirm, POST /api/auth/undo',
  'Second factors: added ones are missing, and removed ones work again. In the log: POST /api/auth/second-factors/totp/:id/confirm, POST /api/auth/second-factors/passkeys, DELETE /api/auth/second-factors/:id, DELETE /api/auth/members/:id/second-factors',
  'Used and replaced recovery codes: they work again. Their owners must create new ones. In the log: POST /api/auth/login/second-factor, POST /api/auth/reauthenticate, POST /api/auth/second-factors/recovery-codes',
  'Second-factor policies and session limits: the previous ones apply. In the log: PATCH /api/auth/company/security',
  'Platform clients: deletions and rotations are undone. Check `client list`, then delete or rotate again.',
  'Event readers can continue with their cursors. Events since the backup are missing, although readers may already have them. Their senders can send them again.',
  'Changes by operators are not in the log: companies created, suspended, resumed, or deleted, subscriptions, users, invitations, and keys.',
  'Queued emails and invitations are not sent. Admins must invite again, and users must request a new link.',
  'Codes of authenticator apps and passkeys are rejected for the next two minutes, because some may already have been used.',
]
