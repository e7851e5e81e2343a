import { PLATFORM } from '../audit/entry.ts'
import { checkName } from '../company/checks.ts'
import { invalidField, Problem } from '../errors.ts'
import { clientSecrets, SCOPES } from '../platform/clients.ts'
import * as repository from '../platform/repository.ts'
import { type ActContext, asOperator } from '../session/acts.ts'
import { newId } from '../system.ts'

/** Acts of operators on the services of the platform that may ask about sessions, or read events. */

interface NewClient {
  name: string
  scopes: string[]
}

/** A client with its secret, which is shown this once. @throws Problem invalid_request */
export async function createClient(context: ActContext, given: NewClient, now: number) {
  const name = checkName('name', given.name)
  const unknown = given.scopes.find((scope) => !SCOPES.some((known) => known === scope))
  if (unknown !== undefined || given.scopes.length === 0)
    throw invalidField('scope', `must be some of ${SCOPES.join(', ')}`)
  const scopes = SCOPES.filter((scope) => given.scopes.includes(scope))
  const { secret, secretHash } = newSecret(context)
  const client = { id: newId(context.system), name, scopes }
  await asOperator(context, { companyId: PLATFORM, now }, async ({ tx, audit }) => {
    await repository.insertClient(tx, { ...client, secretHash, createdAt: new Date(now) })
    await audit('client_create', { subject: client.id, details: { name, scopes } })
  })
  return { ...client, secret }
}

/** Both secrets work, until this is finished or done again. @throws Problem not_found */
export async function rotateClient(context: ActContext, id: string, now: number) {
  const { secret, secretHash } = newSecret(context)
  const client = await asOperator(context, { companyId: PLATFORM, now }, async ({ tx, audit }) => {
    const rotated = requireClient(await repository.addSecret(tx, id, secretHash))
    await audit('client_rotate', { subject: id })
    return rotated
  })
  return { ...client, secret }
}

/** Only the newest secret works from then on. @throws Problem not_found */
export async function finishRotation(context: ActContext, id: string, now: number) {
  return await asOperator(context, { companyId: PLATFORM, now }, async ({ tx, audit }) => {
    const client = requireClient(await repository.removeFormerSecret(tx, id))
    await audit('client_rotate', { subject: id, details: { isFinished: true } })
    return client
  })
}

/** @throws Problem not_found */
export async function deleteClient(context: ActContext, id: string, now: number): Promise<void> {
  await asOperator(context, { companyId: PLATFORM, now }, async ({ tx, audit }) => {
    const { name } = requireClient(await repository.deleteClient(tx, id))
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

function requireClient(client: repository.PlatformClient | undefined): repository.PlatformClient {
  if (client) return client
  throw new Problem('not_found', 'There is no such client; `client list` shows them.')
}
