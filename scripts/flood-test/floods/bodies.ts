import { memoryBelow, signInsSucceed, succeed } from '../aims.ts'
import type { Attack } from '../generators/attack.ts'
import { holdConnections } from '../generators/held-connections.ts'
import { headText } from '../generators/request-text.ts'
import { clientLineOf, ipv4Networks } from '../networks.ts'
import type { Flood, Victim } from './flood.ts'
import { signatureHeaders } from './signatures.ts'

/** Bodies that never end, behind the headers of a signed event. */

const CONNECTIONS = 2_500
/** The longest body that the service takes. */
const LARGEST_BYTES = 512 * 1024
const HUGE_BYTES = 2 ** 30
const network = ipv4Networks(1)

export const unfinishedBodies = bodies('unfinished bodies of 512 KiB', LARGEST_BYTES, LARGEST_BYTES - 1)
export const hugeBodies = bodies('bodies that announce 1 GiB', HUGE_BYTES, 2 * LARGEST_BYTES)

function bodies(what: string, announced: number, sent: number): Flood {
  return {
    about: `${CONNECTIONS.toLocaleString('en')} ${what} at once, at ingest, from one network`,
    aims: [memoryBelow(350), signInsSucceed(0.98), succeed(0.98, 'signed event', 'session check')],
    attack: (victim) => sendBodies(victim, announced, Buffer.alloc(sent, ' ')),
  }
}

function sendBodies({ url, isProxied, companyId }: Victim, announced: number, bytes: Buffer): Attack {
  return holdConnections({
    url,
    count: CONNECTIONS,
    onOpen(socket, n) {
      const headers = signatureHeaders(companyId, Math.floor(Date.now() / 1000))
      const head = headText('/api/events/ingest', announced, { ...headers, 'X-Forwarded-For': network(n) })
      socket.write((isProxied ? clientLineOf(head) : '') + head, 'latin1')
      socket.write(bytes)
    },
  })
}
