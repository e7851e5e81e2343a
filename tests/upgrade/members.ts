import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { senderOf, signedRequest } from '../../scripts/kit/events.ts'
import { letSend, mailed } from './mail.ts'
import type { Reply, Route, Side } from './side.ts'

export interface Person {
  companyId: string | undefined
  email: string
  password: string
}

export const COOKIE_MODE = { 'x-session-mode': 'cookie' }

export const newEmail = () => `${randomBytes(6).toString('hex')}@upgrade.example`
export const newPassword = () => randomBytes(18).toString('base64url')

/** Registers a company at one side, verifies its admin's email at a different one, and returns the admin. */
export async function register(cause: Side, sender: Side, use: Side): Promise<Person> {
  const person = { email: newEmail(), password: newPassword() }
  const json = { companyName: 'Acme', name: 'Ada', ...person }
  const { companyId } = await cause.ask('POST /auth/register', { json }, '201')
  const token = await mailed(sender, person.email, /verify_[\w-]{43}/)
  await use.ask('POST /auth/verify-email', { json: { token } })
  return { companyId, ...person }
}

export const signIn = (side: Side, json: Person, headers: Record<string, string> = {}) =>
  side.ask('POST /auth/login', { json, headers })

export const refresh = (
  side: Side,
  { refreshToken = '' }: Reply,
  headers: Record<string, string> = {},
  expected = '200',
) => side.ask('POST /auth/refresh', { by: { accessToken: refreshToken }, headers }, expected)

/** The expiry of a response's session without further use. */
export const endOf = ({ session }: Reply) => session?.expiresAt ?? ''

export async function letAnHourPass(connection: pg.Client, { session }: Reply): Promise<void> {
  await connection.query(
    `update sessions set created_at = created_at - interval '1 hour', auth_time = auth_time - interval '1 hour',
      issued_at = issued_at - interval '1 hour', expires_at = expires_at - interval '1 hour'
    where session_id = $1`,
    [session?.id],
  )
}

/**
 * Requests a change. A version that requires an emailed code first creates and emails the code itself, because an
 * earlier version does not know all kinds. `sender` sends the change's own emails.
 */
export async function askWithMailCode(
  side: Side,
  { sender, connection }: { sender: Side; connection: pg.Client },
  { person, by }: { person: Person; by: Reply },
  route: Route,
  json: object | undefined,
  expected: string,
): Promise<Reply> {
  const reply = await side.ask(route, { by, ...(json && { json }) }, `${expected}|400 invalid_request`)
  if (reply.code === undefined) return reply
  await letSend(connection, side)
  const purpose = json && { json: { for: 'email' } }
  await side.ask('POST /auth/second-factors/mail-code', { by, ...purpose }, '202')
  const code = await mailed(side, person.email, /\b\d{4} \d{4}\b/)
  await letSend(connection, sender)
  return await side.ask(route, { by, json: { ...json, mailCode: code.replace(' ', '') } }, expected)
}

export function signed({ companyId = '' }: Person, secret: string) {
  const body = JSON.stringify({ type: 'upgrade.begun', data: { amount: 12.5, names: ['Zoë', null] } })
  return signedRequest(senderOf(companyId, secret), randomBytes(9).toString('hex'), body)
}
