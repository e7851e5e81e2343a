import { Type } from '@sinclair/typebox'
import { requireStatus } from '../kit/client.ts'
import { insertSessions } from '../kit/company.ts'
import { type Credentials, loginRequest, replyOf } from '../kit/operations.ts'
import type { Finding } from './aims.ts'
import { ipv4Networks, sendFrom } from './networks.ts'
import { post } from './requests.ts'
import type { Target } from './target.ts'

/** Sessions without end: of a member who signs in over and over, and of members who end them all. */

const MAX_SESSIONS = 200
const SIGN_INS = 240
/** Per second of the flood, and at most: it takes a while to create many. */
const SESSIONS_PER_SECOND = 30_000
const MANY_SESSIONS = 600_000
const MAX_MS = 100
const networks = ipv4Networks(SIGN_INS)

const LoginReply = Type.Object({ accessToken: Type.String() })
const SessionsReply = Type.Object({ sessions: Type.Array(Type.Object({ createdAt: Type.String() })) })

const ENDS = {
  'a logout of all': () => post('/api/auth/logout?scope=all', {}),
  'a change of password': ({ password }: Credentials) =>
    post('/api/auth/password/change', { currentPassword: password, newPassword: `${password}-changed` }),
}

export async function endManySessions(target: Target, seconds: number): Promise<Finding[]> {
  const many = Math.min(MANY_SESSIONS, Math.round(seconds * SESSIONS_PER_SECOND))
  const [often, ...others] = target.attacked
  return [
    ...(often ? await signInOften(target, often) : []),
    await timeEnds(target, others.slice(0, 3), 'a logout of all', many),
    await timeEnds(target, others.slice(3, 6), 'a change of password', many),
  ]
}

async function signIn({ url }: Target, credentials: Credentials, n = 0): Promise<string> {
  return replyOf(LoginReply, 200, await sendFrom(networks(n), url, loginRequest(credentials))).accessToken
}

async function signInOften(target: Target, credentials: Credentials): Promise<Finding[]> {
  for (let n = 0; n < MAX_SESSIONS; n += 1) await signIn(target, credentials, n)
  const startedAt = performance.now()
  let token = ''
  for (let n = MAX_SESSIONS; n < SIGN_INS; n += 1) token = await signIn(target, credentials, n)
  const ms = (performance.now() - startedAt) / (SIGN_INS - MAX_SESSIONS)
  const answer = await sendFrom(networks(0), target.url, { method: 'GET', path: '/api/auth/sessions', token })
  const live = replyOf(SessionsReply, 200, answer).sessions.length
  const timed = { measured: showMs(ms), isMet: ms < MAX_MS, isOfSpeed: true }
  return [
    { what: `sessions after ${SIGN_INS} sign-ins`, measured: String(live), isMet: live === MAX_SESSIONS },
    { what: `a sign-in beyond ${MAX_SESSIONS} sessions takes less than ${MAX_MS} ms`, ...timed },
  ]
}

/** How much longer it takes the last member to end many sessions. The first end loads what judges new passwords. */
async function timeEnds(
  target: Target,
  members: Credentials[],
  end: keyof typeof ENDS,
  many: number,
): Promise<Finding> {
  const tokens: string[] = []
  for (const member of members) tokens.push(await signIn(target, member))
  await addSessions(target, members.at(-1), many)
  const times: number[] = []
  for (const [n, member] of members.entries()) {
    const request = { ...ENDS[end](member), token: tokens[n] ?? '' }
    const startedAt = performance.now()
    requireStatus(204, await sendFrom(networks(n), target.url, request))
    times.push(performance.now() - startedAt)
  }
  const [, one = Number.NaN, all = Number.NaN] = times
  return {
    what: `${end} takes at most ${MAX_MS} ms longer with ${many.toLocaleString('en')} sessions`,
    measured: `${showMs(all)} instead of ${showMs(one)}`,
    isMet: all - one <= MAX_MS,
    isOfSpeed: true,
  }
}

async function addSessions(
  { connection, admin: { companyId } }: Target,
  member: Credentials | undefined,
  count: number,
): Promise<void> {
  const { rows } = await connection.query<{ id: string }>(
    'select user_id as id from users where company_id = $1 and email = $2',
    [companyId, member?.email],
  )
  const ids = rows.map(({ id }) => id)
  await insertSessions(connection, companyId, ids, { count, wanted: 0 })
}

const showMs = (ms: number) => `${ms.toFixed(1)} ms`
