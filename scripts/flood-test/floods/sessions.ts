import { JSON_CONTENT } from '../../kit/client.ts'
import { insertSessions } from '../../kit/company.ts'
import type { Credentials } from '../../kit/operations.ts'
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
    ...(await timeEnds(target, [1, 2, 3], LOGOUT)),
    ...(await timeEnds(target, [4, 5, 6], CHANGE)),
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
 * How long it takes to end few sessions, and many. The first end does not count: the service
 * loads what judges new passwords when it is needed, and drops it after some seconds.
 */
async function timeEnds(
  target: FloodTarget,
  members: [number, number, number],
  end: End,
): Promise<Finding[]> {
  const [, , many] = members
  const tokenOfMany = await signInVia(target, memberOf(target, many), networks(many))
  await addSessions(target, memberOf(target, many), MANY_SESSIONS)
  const times: number[] = []
  for (const n of members) {
    const token = n === many ? tokenOfMany : await signInVia(target, memberOf(target, n), networks(n))
    times.push(await timeEnd(target, n, end, token))
  }
  const [, few = Number.NaN, most = Number.NaN] = times
  const at = (sessions: number) => `${end.what} at ${sessions.toLocaleString('en')} further sessions`
  return [
    { what: at(0), value: few, unit: 'ms' },
    { what: at(MANY_SESSIONS), value: most, unit: 'ms', isMet: most < MAX_MS },
  ]
}

function memberOf(target: FloodTarget, n: number): Credentials {
  const credentials = target.attacked[n]
  if (!credentials) throw new Error('there are too few members')
  return credentials
}

/** How long it takes the nth member to end their sessions. */
async function timeEnd(target: FloodTarget, n: number, end: End, token: string): Promise<number> {
  const startedAt = performance.now()
  const { status, text } = await target.proxy.send({
    method: 'POST',
    path: end.path,
    token,
    headers: { ...JSON_CONTENT, ...from(networks(n)) },
    body: JSON.stringify(end.body(memberOf(target, n))),
  })
  if (status !== 204) throw new Error(`${end.what} was answered ${status}: ${text}`)
  return performance.now() - startedAt
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
