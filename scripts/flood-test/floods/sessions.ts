import { insertSessions } from '../../load-test/database/sessions.ts'
import { JSON_CONTENT } from '../../load-test/http-client.ts'
import type { Credentials } from '../../load-test/operations/credentials.ts'
import { findingsHold } from '../aims.ts'
import type { Finding } from '../figures.ts'
import { ipv4Networks } from '../networks.ts'
import { type FloodTarget, from } from '../target/open-target.ts'
import { signInVia } from '../target/sign-in-via.ts'
import type { Flood } from './flood.ts'

/** Sessions without end: of members who sign in over and over, and who want to end them all. */

const MAX_SESSIONS = 200
const SIGN_INS = 240
const MANY_SESSIONS = 600_000
const MAX_MS = 100
const networks = ipv4Networks(SIGN_INS)

export const manySessions: Flood = {
  about: `${SIGN_INS} sign-ins of one member; the end of ${MANY_SESSIONS.toLocaleString('en')} sessions at once`,
  aims: [findingsHold],
  meanwhile: async (target) => [
    ...(await signInOften(target)),
    ...(await timeEnds(target, [1, 2], LOGOUT)),
    ...(await timeEnds(target, [3, 4], CHANGE)),
  ],
}

async function signInOften(target: FloodTarget): Promise<Finding[]> {
  const [credentials] = target.attacked
  if (!credentials) return []
  const times: number[] = []
  let token = ''
  for (let n = 0; n < SIGN_INS; n += 1) {
    const startedAt = performance.now()
    token = await signInVia(target, credentials, networks(n))
    if (n >= MAX_SESSIONS) times.push(performance.now() - startedAt)
  }
  const { text } = await target.proxy.send({ method: 'GET', path: '/api/auth/sessions', token })
  const live = text.split('"createdAt"').length - 1
  const median = times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0
  return [
    { what: `live sessions after ${SIGN_INS} sign-ins`, value: live, unit: '', isMet: live <= MAX_SESSIONS },
    { what: `a sign-in beyond ${MAX_SESSIONS} sessions`, value: median, unit: 'ms', isMet: median < MAX_MS },
  ]
}

interface End {
  what: string
  path: string
  body(credentials: Credentials): object
}

const LOGOUT: End = { what: 'logout of all', path: '/api/auth/logout?scope=all', body: () => ({}) }
const CHANGE: End = {
  what: 'a change of password',
  path: '/api/auth/password/change',
  body: ({ password }) => ({ currentPassword: password, newPassword: `${password}-changed` }),
}

/**
 * How long it takes to end few sessions, and many. The two come right after each other, since the service loads what
 * judges new passwords when it is first needed, and drops it after some seconds.
 */
async function timeEnds(target: FloodTarget, [few, many]: [number, number], end: End): Promise<Finding[]> {
  const token = await signInVia(target, memberOf(target, many), networks(many))
  await addSessions(target, memberOf(target, many), MANY_SESSIONS)
  const own = await signInVia(target, memberOf(target, few), networks(few))
  return [await timeEnd(target, few, end, own, 0), await timeEnd(target, many, end, token, MANY_SESSIONS)]
}

function memberOf(target: FloodTarget, n: number): Credentials {
  const credentials = target.attacked[n]
  if (!credentials) throw new Error('there are too few members')
  return credentials
}

/** How long it takes the nth member to end so many sessions. Only with many of them there is an aim. */
async function timeEnd(
  target: FloodTarget,
  n: number,
  end: End,
  token: string,
  sessions: number,
): Promise<Finding> {
  const credentials = memberOf(target, n)
  const startedAt = performance.now()
  const { status } = await target.proxy.send({
    method: 'POST',
    path: end.path,
    token,
    headers: { ...JSON_CONTENT, ...from(networks(n)) },
    body: JSON.stringify(end.body(credentials)),
  })
  const ms = performance.now() - startedAt
  const what = `${end.what} at ${sessions.toLocaleString('en')} further sessions, answered ${status}`
  return { what, value: ms, unit: 'ms', ...(sessions > 0 && { isMet: status === 204 && ms < MAX_MS }) }
}

async function addSessions(
  { connection }: FloodTarget,
  { companyId, email }: Credentials,
  count: number,
): Promise<void> {
  const { rows } = await connection.query<{ id: string }>(
    'select user_id as id from users where company_id = $1 and email = $2',
    [companyId, email],
  )
  const ids = rows.map(({ id }) => id)
  await insertSessions(connection, companyId, ids, { count, wanted: 0 })
}
