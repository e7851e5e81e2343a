import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { LruMap } from 'toad-cache'
import { networkOf } from '../limits/client.ts'
import type { System } from '../system.ts'

/** Networks from which a credential held within a day. Their requests do not wait for those of strangers. */

const KNOWN_MS = 24 * 3_600_000
/** Beyond this number, the network whose credential held longest ago is forgotten. */
const MAX_KNOWN = 50_000

export interface KnownNetworks {
  has(network: string): boolean
  add(network: string): void
}

export function createKnownNetworks({ elapsed }: Pick<System, 'elapsed'>): KnownNetworks {
  const heldAt = new LruMap<number>(MAX_KNOWN)
  return {
    has(network) {
      const at = heldAt.get(network)
      return at !== undefined && elapsed() - at < KNOWN_MS
    },
    add(network) {
      heldAt.set(network, elapsed())
    },
  }
}

/** Learns from the answers: one that is no refusal, of a route that asks for a credential, means that it held. */
async function plugin(
  app: FastifyInstance,
  { knownNetworks }: { knownNetworks: KnownNetworks },
): Promise<void> {
  app.addHook('onResponse', (request, reply, done) => {
    const asksForCredential = request.routeOptions.schema?.security !== undefined
    if (asksForCredential && reply.statusCode < 300) knownNetworks.add(networkOf(request))
    done()
  })
}

export const knownNetworksPlugin = fp(plugin, { name: 'known-networks' })
