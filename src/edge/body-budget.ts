import { Gauge, type Registry } from 'prom-client'
import { overloaded } from '../errors.ts'
import { widerNetworkOf } from './network.ts'

/**
 * Bounds the memory of bodies until their requests are answered, in all and by IPv4 address or IPv6 /48. What has arrived
 * counts, since a slow sender could announce much with a few bytes.
 */

const TOTAL_BYTES = 64 * 1024 * 1024
const NETWORK_BYTES = TOTAL_BYTES / 4

export interface Holding {
  /** @throws Problem overloaded if there is no room */
  take(bytes: number): void
  /** Gives everything back. Nothing can be taken afterwards. */
  release(): void
}

export type BodyBudget = ReturnType<typeof createBodyBudget>

export function createBodyBudget(registry: Registry) {
  const byNetwork = new Map<string, number>()
  let used = 0
  new Gauge({
    name: 'gatehouse_body_bytes',
    help: 'Bytes of request bodies in memory',
    registers: [registry],
    collect() {
      this.set(used)
    },
  })

  function requireRoom(network: string, bytes: number): void {
    const own = byNetwork.get(network) ?? 0
    if (own + bytes > NETWORK_BYTES || used + bytes > TOTAL_BYTES)
      throw overloaded('Too many bodies are being sent at once; try again in a moment.')
  }

  function add(network: string, bytes: number): void {
    used += bytes
    const own = (byNetwork.get(network) ?? 0) + bytes
    if (own > 0) byNetwork.set(network, own)
    else byNetwork.delete(network)
  }

  return {
    /** For a body of which `announced` bytes are expected. @throws Problem overloaded if there is no room for them */
    open(ofNetwork: string, announced: number): Holding {
      const network = widerNetworkOf(ofNetwork)
      requireRoom(network, announced)
      let held = 0
      let isReleased = false
      return {
        take(bytes) {
          if (isReleased) return
          requireRoom(network, bytes)
          held += bytes
          add(network, bytes)
        },
        release() {
          isReleased = true
          add(network, -held)
          held = 0
        },
      }
    },
  }
}
