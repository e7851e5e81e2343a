import type { Credentials } from '../../kit/operations.ts'
import { type Actor, pause, perform, performUntilKnown } from './perform.ts'
import { memberOf, refresh, type Session, signIn } from './person.ts'
import type { Secrets } from './sender.ts'

/** An admin, who replaces the signing secret, disables service accounts for a while, and ends their sessions. */

export interface Server {
  id: string
  credentials: Credentials
}

const PAUSE_MS = 500

export async function liveAdmin(
  actor: Actor,
  { admin, servers, secrets }: { admin: Credentials; servers: readonly Server[]; secrets: Secrets },
): Promise<void> {
  const { random, ending } = actor
  let session: Session | null = null
  while (!ending.aborted) {
    await pause(actor, PAUSE_MS)
    session ??= await signIn(actor, admin)
    if (!session) continue
    const choice = random.below(12)
    if (choice < 3) await regenerate(actor, session, secrets)
    else if (choice < 6) await readStatus(actor, session, secrets)
    else if (choice < 7) await disableForAWhile(actor, session, random.pick(servers))
    else if (choice < 9) await endSessions(actor, session, random.pick(servers))
    else session = await refresh(actor, session, random.word(16))
  }
}

/** Its version is noted as seen, so that two admins can expect the same one. */
export async function regenerate(
  actor: Actor,
  { accessToken: token }: Session,
  secrets: Secrets,
): Promise<void> {
  const { random } = actor
  const { companyId: id, shown } = secrets
  const expected = random.isOneIn(2) ? null : shown.length
  const { outcome, reply } = await perform(actor, {
    what: 'POST /auth/webhook-secret/regenerate',
    token,
    ...(expected !== null && { json: { expectedVersion: expected } }),
    parts: ({ reply: { version = null, secret = null } }) => [
      { kind: 'secret', id, act: 'regenerate', expected, version, secret },
    ],
  })
  if (outcome !== 'ok' || !reply.secret || !reply.version) return
  // Lost ones leave holes.
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

export async function makeServer(
  actor: Actor,
  { accessToken: token }: Session,
  companyId: string,
): Promise<Server[]> {
  const { reply } = await perform(actor, {
    what: 'POST /auth/members',
    token,
    json: { name: `Server ${actor.random.word(6)}`, role: 'viewer' },
    parts: () => [],
  })
  const { id, email, password } = reply
  return id && email && password ? [{ id, credentials: { companyId, email, password } }] : []
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

async function endSessions(
  actor: Actor,
  { accessToken: token }: Session,
  { id, credentials }: Server,
): Promise<void> {
  await perform(actor, {
    what: `DELETE /auth/members/${id}/sessions`,
    token,
    parts: ({ outcome }) =>
      outcome === 'refused' ? [] : [{ kind: 'sessions', id: memberOf(credentials), act: 'end', kept: null }],
  })
}
