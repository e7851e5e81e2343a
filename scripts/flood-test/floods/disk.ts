import { randomBytes } from 'node:crypto'
import { megabytesAnHourBelow, succeed } from '../aims.ts'
import { getText, postText } from '../generators/request-text.ts'
import { sendSteadily } from '../generators/steady-requests.ts'
import { ipv6Networks } from '../networks.ts'
import type { Flood, Victim } from './flood.ts'
import { signatureHeaders } from './signatures.ts'

/** Everything that a stranger can make the service write, always from another network of one IPv6 /48. */

const RATE = 300
const CONNECTIONS = 200

export const disk: Flood = {
  about: `${RATE} sign-ins, registrations, requested mails and refused credentials a second from one IPv6 /48`,
  aims: [megabytesAnHourBelow(20), succeed(0.98, 'sign-in, known network', 'session check')],
  attack(victim) {
    const networks = ipv6Networks()
    return sendSteadily({
      url: victim.url,
      isProxied: victim.isProxied,
      isRoaming: true,
      rate: RATE,
      connections: CONNECTIONS,
      depth: 1,
      requestOf: (n) => KINDS[n % KINDS.length]?.(victim, n, { 'X-Forwarded-For': networks(n) }) ?? '',
    })
  },
}

type RequestText = (victim: Victim, n: number, headers: Record<string, string>) => string

const KINDS: RequestText[] = [
  ({ companyId, members }, n, headers) =>
    post(
      '/api/auth/login',
      { companyId, email: members[n % members.length], password: `wrong ${n}` },
      headers,
    ),
  ({ companyId }, n, headers) =>
    post('/api/auth/login', { companyId, email: `nobody${n}@flood.example`, password: 'wrong' }, headers),
  ({ companyId }, n, headers) =>
    post('/api/auth/password/forgot', { companyId, email: `nobody${n}@flood.example` }, headers),
  ({ companyId, members }, n, headers) =>
    post('/api/auth/password/forgot', { companyId, email: members[n % members.length] }, headers),
  (_, n, headers) =>
    post(
      '/api/auth/register',
      {
        companyName: `C${n}`,
        name: 'Ada',
        email: `a${n}@flood.example`,
        password: randomBytes(15).toString('base64url'),
      },
      headers,
    ),
  (_, _n, headers) =>
    post(
      '/api/auth/password/reset',
      {
        token: `reset_${randomBytes(32).toString('base64url')}`,
        newPassword: randomBytes(15).toString('base64url'),
      },
      headers,
    ),
  ({ companyId }, _n, headers) =>
    postText('/api/events/ingest', '{"type":"a.b","data":{}}', {
      ...signatureHeaders(companyId, Math.floor(Date.now() / 1000)),
      ...headers,
    }),
  (_, n, headers) => getText('/api/auth/session', { Authorization: `Bearer junk${n}`, ...headers }),
]

function post(path: string, body: object, headers: Record<string, string>): string {
  return postText(path, JSON.stringify(body), headers)
}
