import { succeed } from '../aims.ts'
import { postText } from '../generators/request-text.ts'
import { sendSteadily } from '../generators/steady-requests.ts'
import { ipv4Networks, ipv6Networks, type Networks } from '../networks.ts'
import type { Flood, Victim } from './flood.ts'

/** Sign-ins with wrong passwords: every second one at a member, the others at nobody. */

const RATE = 500
/** Enough for two seconds of sign-ins that wait for their answer. */
const CONNECTIONS = 1_000

export const signInsFrom1 = signIns('1 network', ipv4Networks(1), 0.6)
export const signInsFrom100 = signIns('100 networks', ipv4Networks(100), 0.6)
export const signInsFrom1000 = signIns('1,000 networks', ipv4Networks(1_000))
export const signInsFrom5000 = signIns('5,000 networks', ipv4Networks(5_000))
export const signInsFromIpv6 = signIns('one IPv6 /48, each from another /64', ipv6Networks(), 0.6)

/** `unknownShare`: what has to succeed of the sign-ins from networks that are new to the service. */
function signIns(from: string, networks: Networks, unknownShare?: number): Flood {
  return {
    about: `${RATE} sign-ins a second with wrong passwords from ${from}`,
    aims: [
      succeed(0.98, 'sign-in, known network', 'sign-in, known device'),
      ...(unknownShare === undefined ? [] : [succeed(unknownShare, 'sign-in, new network')]),
      succeed(0.98, 'session check', 'refresh'),
    ],
    attack: (victim) =>
      sendSteadily({
        url: victim.url,
        isProxied: victim.isProxied,
        isRoaming: true,
        rate: RATE,
        connections: CONNECTIONS,
        depth: 1,
        requestOf: (n) => signInText(victim, n, networks(n)),
      }),
  }
}

function signInText({ companyId, members }: Victim, n: number, network: string): string {
  const email = n % 2 === 0 ? members[(n / 2) % members.length] : `nobody${n}@flood.example`
  const body = JSON.stringify({ companyId, email, password: `wrong password ${n}` })
  return postText('/api/auth/login', body, { 'X-Forwarded-For': network })
}
