import { randomBytes, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { JSON_CONTENT, type Request } from '../kit/client.ts'
import { SAMPLE_EVENT, signedRequest } from '../kit/events.ts'
import { loginRequest } from '../kit/operations.ts'
import type { Networks } from './networks.ts'

export interface Victim {
  url: string
  companyId: string
  /** Emails of members who send nothing themselves. */
  members: string[]
}

export interface Attack {
  rate: number
  connections: number
  networks: Networks
  /** Otherwise each request has its own connection. */
  isKept?: boolean
  requestOf(victim: Victim, n: number): Request<string | Readable>
}

/** By status or error code, with `sent`. */
export type Counts = Record<string, number>

type RequestOf = (victim: Victim, n: number) => Request

export const post = (path: string, body: object): Request => ({
  method: 'POST',
  path,
  headers: JSON_CONTENT,
  body: JSON.stringify(body),
})

const memberOf = ({ members }: Victim, n: number) => members[n % members.length] ?? ''
const nobody = (n: number) => `nobody${n}@flood.example`
const newPassword = () => randomBytes(15).toString('base64url')

const memberSignIn: RequestOf = (victim, n) =>
  loginRequest({ companyId: victim.companyId, email: memberOf(victim, n), password: `wrong password ${n}` })

const strangerSignIn: RequestOf = ({ companyId }, n) =>
  loginRequest({ companyId, email: nobody(n), password: `wrong password ${n}` })

/** Half of the accounts exist. */
export const wrongSignIn: RequestOf = (victim, n) =>
  n % 2 === 0 ? memberSignIn(victim, n / 2) : strangerSignIn(victim, n)

const EVENT = JSON.stringify(SAMPLE_EVENT)

/** Signed with a key that the service does not have. */
export function badEvent({ ageMs = 0, companyId }: { ageMs?: number; companyId?: string } = {}): RequestOf {
  const signingKey = randomBytes(32)
  return (victim) => {
    const sender = { companyId: companyId ?? victim.companyId, signingKey }
    return signedRequest(sender, randomUUID(), EVENT, Date.now() - ageMs)
  }
}

/** Ends after these bytes, although its headers announce more. */
export function endlessEvent(announced: number, sent: Buffer): (victim: Victim) => Request<Readable> {
  const eventOf = badEvent()
  return (victim) => {
    const event = eventOf(victim, 0)
    const headers = { ...event.headers, 'content-length': String(announced) }
    const body = new Readable({ read() {} })
    body.push(sent)
    return { ...event, headers, body }
  }
}

export function registration(n: number, email: string): Request {
  const company = { companyName: `Company ${n}`, name: 'Ada', email, password: newPassword() }
  return post('/api/auth/register', company)
}

export const forgotten = (companyId: string, email: string) =>
  post('/api/auth/password/forgot', { companyId, email })

/** All requests with which strangers can make the service write. */
const WRITING: RequestOf[] = [
  memberSignIn,
  strangerSignIn,
  ({ companyId }, n) => forgotten(companyId, nobody(n)),
  (victim, n) => forgotten(victim.companyId, memberOf(victim, n)),
  (_, n) => registration(n, `a${n}@flood.example`),
  () => {
    const token = `reset_${randomBytes(32).toString('base64url')}`
    return post('/api/auth/password/reset', { token, newPassword: newPassword() })
  },
  badEvent(),
  (_, n) => ({ method: 'GET', path: '/api/auth/session', token: `junk${n}` }),
]

export const writing: RequestOf = (victim, n) => (WRITING[n % WRITING.length] ?? memberSignIn)(victim, n)
