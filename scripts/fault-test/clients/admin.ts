import type { Credentials } from '../../kit/operations.ts'
import { type Actor, pause, perform, performUntilKnown } from './perform.ts'
import { memberOf, refresh, type Session, signIn } from './person.ts'
import type { Secrets } from './sender.ts'

/** An admin, who replaces the signing secret and changes members. Only the admin of a company knows its members' ids. */

export interface Server {
  id: string
  credentials: Credentials
}

const PAUSE_MS = 500
const ROLES = ['analyst', 'developer', 'viewer']

export async function liveAdmin(
  actor: Actor,
  {
    admin,
    servers,
    made,
    secrets,
  }: {
    admin: Credentials
    servers: readonly Server[]
    /** Those that it makes besides, some of which it deletes. */
    made: Server[]
    secrets: Secrets
  },
): Promise<void> {
  const { random, ending } = actor
  let session: Session | null = null
  const extras: Server[] = []
  while (!ending.aborted) {
    await pause(actor, PAUSE_MS)
    session ??= await signIn(actor, admin)
    if (!session) continue
    const choice = random.below(20)
    if (choice < 3) await regenerate(actor, session, secrets)
    else if (choice < 6) await readStatus(actor, session, secrets)
    else if (choice < 10) await changeMember(actor, session, random.pick([...servers, ...extras]), {})
    else if (choice < 14) await readMember(actor, session, random.pick([...servers, ...extras]))
    else if (choice === 14) await disableForAWhile(actor, session, random.pick(servers))
    else if (choice === 15) {
      const more = await makeServer(actor, session, admin.companyId)
      made.push(...more)
      extras.push(...more)
    } else if (choice === 16) {
      const server = extras.pop()
      if (server) await deleteMember(actor, session, server)
    } else if (choice === 17) await endSessions(actor, session, random.pick(servers))
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
  const role = actor.random.pick(ROLES)
  const { reply } = await perform(actor, {
    what: 'POST /auth/members',
    token,
    json: { name: `Server ${actor.random.word(6)}`, role },
    parts: ({ reply: { email, password } }) =>
      email && password
        ? [
            {
              kind: 'member',
              id: memberOf({ companyId, email, password }),
              act: 'make',
              role,
              email,
              password,
            },
          ]
        : [],
  })
  const { id, email, password } = reply
  return id && email && password ? [{ id, credentials: { companyId, email, password } }] : []
}

async function changeMember(
  actor: Actor,
  { accessToken: token }: Session,
  { id, credentials }: Server,
  { status }: { status?: 'active' | 'disabled' },
): Promise<void> {
  const change = status ? { status } : { role: actor.random.pick(ROLES) }
  const member = memberOf(credentials)
  await performUntilKnown(actor, {
    what: `PATCH /auth/members/${id}`,
    token,
    json: change,
    parts: ({ outcome }) => [
      { kind: 'member', id: member, act: 'change', ...change },
      ...(status === 'disabled' && outcome !== 'refused'
        ? [{ kind: 'sessions', id: member, act: 'end', kept: null } as const]
        : []),
    ],
  })
}

async function disableForAWhile(actor: Actor, session: Session, server: Server): Promise<void> {
  await changeMember(actor, session, server, { status: 'disabled' })
  await pause(actor, PAUSE_MS)
  await readMember(actor, session, server)
  await changeMember(actor, session, server, { status: 'active' })
}

export async function readMember(
  actor: Actor,
  { accessToken: token }: Session,
  { id, credentials }: Server,
): Promise<void> {
  await performUntilKnown(actor, {
    what: `GET /auth/members/${id}`,
    token,
    asked: credentials.email,
    answeredOf: ({ email }) => email,
    parts: ({ reply: { role = '', status = '' } }) => [
      { kind: 'member', id: memberOf(credentials), act: 'read', role, status: String(status) },
    ],
  })
}

async function deleteMember(
  actor: Actor,
  { accessToken: token }: Session,
  { id, credentials }: Server,
): Promise<void> {
  const member = memberOf(credentials)
  await performUntilKnown(actor, {
    what: `DELETE /auth/members/${id}`,
    token,
    parts: ({ outcome }) => [
      { kind: 'member', id: member, act: 'delete' },
      ...(outcome === 'refused' ? [] : [{ kind: 'sessions', id: member, act: 'end', kept: null } as const]),
    ],
  })
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
