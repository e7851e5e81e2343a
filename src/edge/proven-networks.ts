import { LruMap } from 'toad-cache'
import type { System } from '../system.ts'
import { widerNetworkOf } from './network.ts'

/**
 * Networks from which a credential held within a day. Their requests do not wait for those of strangers. An attacker
 * with an account can prove networks, which only gets them a turn among the others that are proven.
 */

const PROVEN_MS = 24 * 3_600_000
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
