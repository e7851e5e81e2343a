import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { LruMap } from 'toad-cache'
import { networkOf } from '../limits/client.ts'
import { widerNetworkOf } from '../limits/network.ts'
import type { System } from '../system.ts'

/**
 * Networks from which a credential held within a day. Their requests do not wait for those of strangers. Whoever has
 * an account can prove networks too; it only gives them a turn among the others that are proven.
 */

const PROVEN_MS = 24 * 3_600_000
/** Wider networks that are remembered. Beyond that, the one that was seen least recently is forgotten. */
const MAX_WIDER = 50_000
/** Networks of each: one customer can have 65 536. */
const MAX_OF_WIDER = 16

export interface ProvenNetworks {
  has(network: string): boolean
  add(network: string): void
}

export function createProvenNetworks({ elapsed }: Pick<System, 'elapsed'>): ProvenNetworks {
  const provenAt = new LruMap<LruMap<number>>(MAX_WIDER)
  return {
    has(network) {
      const at = provenAt.get(widerNetworkOf(network))?.get(network)
      return at !== undefined && elapsed() - at < PROVEN_MS
    },
    add(network) {
      const wider = widerNetworkOf(network)
      const ofWider = provenAt.get(wider) ?? new LruMap<number>(MAX_OF_WIDER)
      ofWider.set(network, elapsed())
      provenAt.set(wider, ofWider)
    },
  }
}

/** Learns from the answers: one that is no refusal, to a request that had to bring a credential, means that it held. */
async function plugin(
  app: FastifyInstance,
  { provenNetworks }: { provenNetworks: ProvenNetworks },
): Promise<void> {
  app.addHook('onResponse', (request, reply, done) => {
    const { schema, config } = request.routeOptions
    // Public routes declare that they ask for none. Sign-in is one of them: its credential is in the body.
    const asksForCredential = (schema?.security?.length ?? 0) > 0 || config.countedAs === 'sign_ins'
    if (asksForCredential && reply.statusCode < 300) provenNetworks.add(networkOf(request))
    done()
  })
}

export const provenNetworksPlugin = fp(plugin, { name: 'proven-networks', dependencies: ['observe'] })
