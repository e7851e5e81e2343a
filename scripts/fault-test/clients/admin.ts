import type { Credentials } from '../../kit/operations.ts'
import { type Actor, pause, perform, performUntilKnown } from './perform.ts'
import { memberOf, type Session, signIn } from './person.ts'
import type { Secrets } from './sender.ts'

/** An admin, who replaces the signing secret, and disables service accounts for a while. */

export interface Server {
  id: string
  credentials: Credentials
}

interface World {
  admin: Credentials
  servers: readonly Server[]
  secrets: Secrets
}

const PAUSE_MS = 500

export async function liveAdmin(actor: Actor, { admin, servers, secrets }: World): Promise<void> {
  const { random, ending } = actor
  let session: Session | null = null
  while (!ending.aborted) {
    await pause(actor, PAUSE_MS)
    session ??= await signIn(actor, admin)
    if (!session) continue
    const choice = random.below(8)
    if (choice < 3) await regenerate(actor, session, secrets)
    else if (choice < 6) await readStatus(actor, session, secrets)
    else await disableForAWhile(actor, session, random.pick(servers))
  }
}

/** The version that this client saw last is expected now and then, so that two can expect the same one. */
export async function regenerate(
  actor: Actor,
  { accessToken: token }: Session,
  { companyId: id, shown }: Secrets,
): Promise<void> {
  const expected = actor.random.isOneIn(2) ? null : shown.length
  const { outcome, reply } = await perform(actor, {
    what: 'POST /auth/webhook-secret/regenerate',
    token,
    ...(expected !== null && { json: { expectedVersion: expected } }),
    parts: ({ reply: { version = null, secret = null } }) => [
      { kind: 'secret', id, act: 'regenerate', expected, version, secret },
    ],
  })
  if (outcome !== 'ok' || !reply.secret || !reply.version) return
  // Lost answers leave holes.
  while (shown.length < reply.version - 1) shown.push(shown.at(-1) ?? reply.secret)
  shown[reply.version - 1] = reply.secret
}

async function readStatus(
  actor: Actor,
  { accessToken: token }: Session,
  { companyId: id }: Secrets,
): Promise<void> {
  await perform(actor, {
    what: 'POST /auth/webhook-secret/status',
    token,
    parts: ({ reply: { version = null } }) => [{ kind: 'secret', id, act: 'status', version }],
  })
}

/** @throws if the service does not create it: this is done before any fault */
export async function createServer(
  actor: Actor,
  { accessToken: token }: Session,
  companyId: string,
): Promise<Server> {
  const { reply } = await perform(actor, {
    what: 'POST /auth/members',
    token,
    json: { name: `Server ${actor.random.word(6)}`, role: 'viewer' },
    parts: () => [],
  })
  const { id, email, password } = reply
  if (!id || !email || !password) throw new Error('the response has no service account')
  return { id, credentials: { companyId, email, password } }
}

async function disableForAWhile(
  actor: Actor,
  { accessToken: token }: Session,
  { id, credentials }: Server,
): Promise<void> {
  const change = (status: 'active' | 'disabled') =>
    performUntilKnown(actor, {
      what: `PATCH /auth/members/${id}`,
      token,
      json: { status },
      parts: ({ outcome }) =>
        status === 'disabled' && outcome !== 'refused'
          ? [{ kind: 'sessions', id: memberOf(credentials), act: 'end', kept: null }]
          : [],
    })
  await change('disabled')
  await pause(actor, PAUSE_MS)
  await change('active')
}
