import { overloaded, type Problem } from '../errors.ts'
import { widerNetworkOf } from './network.ts'

/**
 * Bounds the memory of bodies until their requests are answered, in all and by network. Once a request has begun, only
 * what has arrived counts, since a slow sender could announce much with a few bytes. When all is in use, the wider
 * network that holds most gives up an unfinished body for one that holds less.
 */

const TOTAL_BYTES = 64 * 1024 * 1024
const NETWORK_BYTES = TOTAL_BYTES / 4

export interface Holding {
  /** @throws Problem overloaded if there is no room */
  take(bytes: number): void
  /** Says how to give up what is held while the body is unfinished; undefined once it is finished. */
  onDrop(drop: ((reason: Problem) => void) | undefined): void
  /** Gives everything back. Nothing can be taken afterwards. */
  release(): void
}

export interface BodyBudget {
  /**
   * Starts a holding for a body of which `announced` bytes are expected.
   * @throws Problem overloaded if the network has no room for them at present
   */
  open(network: string, announced: number): Holding
  readonly bytes: number
}

/** What the networks of one wider network hold together, and how to get it back. */
interface Share {
  bytes: number
  unfinished: Map<Holding, (reason: Problem) => void>
}

export function createBodyBudget(total = TOTAL_BYTES, perNetwork = NETWORK_BYTES): BodyBudget {
  const byNetwork = new Map<string, number>()
  const shares = new Map<string, Share>()
  let used = 0

  function shareOf(widerNetwork: string): Share {
    const share = shares.get(widerNetwork) ?? { bytes: 0, unfinished: new Map() }
    shares.set(widerNetwork, share)
    return share
  }

  function add(network: string, widerNetwork: string, bytes: number): void {
    used += bytes
    const own = (byNetwork.get(network) ?? 0) + bytes
    if (own > 0) byNetwork.set(network, own)
    else byNetwork.delete(network)
    const share = shareOf(widerNetwork)
    share.bytes += bytes
    if (share.bytes === 0 && share.unfinished.size === 0) shares.delete(widerNetwork)
  }

  function requireOwnPart(network: string, bytes: number): void {
    if ((byNetwork.get(network) ?? 0) + bytes > perNetwork) throw noRoom()
  }

  function makeRoom(widerNetwork: string, bytes: number): void {
    const own = shareOf(widerNetwork)
    while (used + bytes > total) {
      const droppable = [...shares.values()].filter(({ unfinished }) => unfinished.size > 0)
      const most = droppable.reduce((max, share) => (share.bytes > max.bytes ? share : max), own)
      const [oldest] = most.unfinished
      if (most.bytes <= own.bytes + bytes || !oldest) throw noRoom()
      const [holding, drop] = oldest
      drop(noRoom())
      holding.release()
    }
  }

  return {
    open(network, announced) {
      requireOwnPart(network, announced)
      const widerNetwork = widerNetworkOf(network)
      let held = 0
      let isReleased = false
      const holding: Holding = {
        take(bytes) {
          if (isReleased) return
          requireOwnPart(network, bytes)
          makeRoom(widerNetwork, bytes)
          held += bytes
          add(network, widerNetwork, bytes)
        },
        onDrop(drop) {
          const { unfinished } = shareOf(widerNetwork)
          if (drop && !isReleased) unfinished.set(holding, drop)
          else unfinished.delete(holding)
          add(network, widerNetwork, 0)
        },
        release() {
          isReleased = true
          shareOf(widerNetwork).unfinished.delete(holding)
          add(network, widerNetwork, -held)
          held = 0
        },
      }
      return holding
    },
    get bytes() {
      return used
    },
  }
}

function noRoom(): Problem {
  return overloaded('Too many bodies are being sent at once; try again in a moment.')
}
