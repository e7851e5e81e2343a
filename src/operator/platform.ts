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

/** Operators' acts across companies: platform clients, keys, all sessions, a restored backup. @throws Problem not_found */

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
    throw invalidField('scope', `must be some of ${SCOPES.join(', ')}`)
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
  if (!secretHash) throw new Error('a secret that was made has the form of one')
  return { secret, secretHash }
}

function requireClient(client: clients.PlatformClient | undefined): clients.PlatformClient {
  if (client) return client
  throw new Problem('not_found', 'There is no such client; `client list` shows them.')
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
      throw new Problem('not_found', 'There is no such key that is not retired; `keys list` shows them.')
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
  'Find these requests in the log since the backup, with a status below 300: companyId, userId and memberId say whom they concern. If the former database can still be read, its table audit_events tells the same.',
  'Signing secrets that were replaced: the former one is good again, and the newer one is refused. Make another. In the log: POST /api/auth/webhook-secret/regenerate',
  'Members that were disabled, deleted or given another role: they are active, with the former role. In the log: PATCH /api/auth/members/:id, DELETE /api/auth/members/:id',
  'Companies and members that came: they are gone. In the log: POST /api/auth/register, POST /api/auth/invitations/accept, POST /api/auth/members',
  'Passwords that were changed, reset, replaced or made void: the former ones are good again. In the log: POST /api/auth/password/change, POST /api/auth/password/reset, POST /api/auth/members/:id/password, DELETE /api/auth/members/:id/second-factors',
  'E-mails that were changed, or put back: the former one signs in, and gets the links. In the log: POST /api/auth/email/confirm, POST /api/auth/undo',
  'Second factors: those that were added are gone, and those that were removed are good again. In the log: POST /api/auth/second-factors/totp/:id/confirm, POST /api/auth/second-factors/passkeys, DELETE /api/auth/second-factors/:id, DELETE /api/auth/members/:id/second-factors',
  'Recovery codes that were used or replaced: they are good again. Their owners make new ones. In the log: POST /api/auth/login/second-factor, POST /api/auth/reauthenticate, POST /api/auth/second-factors/recovery-codes',
  'Who needs a second factor: the policy is the former one. In the log: PATCH /api/auth/company/security',
  'Platform clients and their secrets: those that were deleted or rotated are as they were. Look at `client list`, delete and rotate again.',
  'Readers of events go on with their cursors. Events since the backup are gone, but for readers who have read them: their senders can send them again.',
  'What operators did, which the log does not have: companies created, suspended, resumed or deleted, subscriptions, users, invitations, keys.',
  'Mails and invitations that waited are not sent: admins invite again, and users ask for another link.',
  'Codes of authenticator apps and passkeys are refused for the next two minutes, since some may have been used before.',
]
