import { randomBytes, randomUUID } from 'node:crypto'
import { SAMPLE_EVENT } from '../../kit/events.ts'
import { rowsAtMost, succeed } from '../aims.ts'
import { postText } from '../generators/request-text.ts'
import { sendSteadily } from '../generators/steady-requests.ts'
import { ipv4Networks } from '../networks.ts'
import type { Flood, Victim } from './flood.ts'

/** Events whose signature does not hold. */

const RATE = 10_000
const CONNECTIONS = 64
/** How many requests of a connection can wait for their answer. */
const DEPTH = 8
const STALE_SECONDS = 3_600
const PLACE = '198.18.255.255'

export const badSignaturesFrom1 = signatures('events with a wrong signature', 1, {})
export const badSignaturesFrom100 = signatures('events with a wrong signature', 100, {})
export const staleSignatures = signatures('events of an hour ago', 100, { age: STALE_SECONDS })
export const unknownCompany = signatures('events of a company that does not exist', 100, {
  companyId: randomUUID(),
})

function signatures(what: string, count: number, fault: { age?: number; companyId?: string }): Flood {
  const from = count === 1 ? 'one network' : `${count} networks`
  return {
    about: `up to ${RATE.toLocaleString('en')} ${what} a second, from ${from}`,
    aims: [succeed(0.98, 'signed event', 'session check'), rowsAtMost(100, 60)],
    attack(victim) {
      const networks = ipv4Networks(count)
      const textOf = prepareText({ ...victim, ...fault }, fault.age ?? 0)
      return sendSteadily({
        url: victim.url,
        isProxied: victim.isProxied,
        rate: RATE,
        connections: CONNECTIONS,
        depth: DEPTH,
        requestOf: (n) => textOf(networks(n)),
      })
    },
  }
}

/** The text for a network. All but the network is made once a second, which keeps the generator fast. */
function prepareText({ companyId }: Victim, age: number): (network: string) => string {
  let second = 0
  let before = ''
  let after = ''
  return (network) => {
    const now = Math.floor(Date.now() / 1000)
    if (now !== second) {
      second = now
      const headers = { ...signatureHeaders(companyId, now - age), 'X-Forwarded-For': PLACE }
      const [start = '', end = ''] = postText('/api/events/ingest', BODY, headers).split(PLACE)
      before = start
      after = end
    }
    return before + network + after
  }
}

const BODY = JSON.stringify(SAMPLE_EVENT)

/** They look right, but the signature is random. */
export function signatureHeaders(companyId: string, timestamp: number): Record<string, string> {
  return {
    'X-Company-Id': companyId,
    'webhook-id': randomUUID(),
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${randomBytes(32).toString('base64')}`,
  }
}
