import { overloaded, type Problem } from '../errors.ts'
import { widerNetworkOf } from '../limits/client.ts'

/**
 * Bounds the memory that bodies take until their requests are answered, in all and by network. What has arrived
 * counts and not what was announced, since a sender that is slow on purpose would otherwise take much for a few
 * bytes. When all is in use, the network (IPv6: the /48) that holds most gives up an unfinished body for one
 * that holds less. So however many networks fill it, there is room for one more.
 */

const TOTAL_BYTES = 64 * 1024 * 1024
const NETWORK_BYTES = TOTAL_BYTES / 4

/** What one request holds of the budget. */
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

/** What the networks of one /48, or one IPv4 address, hold together, and how to get it back. */
interface Site {
  bytes: number
  unfinished: Map<Holding, (reason: Problem) => void>
}

export function createBodyBudget(total = TOTAL_BYTES, perNetwork = NETWORK_BYTES): BodyBudget {
  const byNetwork = new Map<string, number>()
  const sites = new Map<string, Site>()
  let used = 0

  function siteOf(name: string): Site {
    const site = sites.get(name) ?? { bytes: 0, unfinished: new Map() }
    sites.set(name, site)
    return site
  }

  function add(network: string, siteName: string, bytes: number): void {
    used += bytes
    const own = (byNetwork.get(network) ?? 0) + bytes
    if (own > 0) byNetwork.set(network, own)
    else byNetwork.delete(network)
    const site = siteOf(siteName)
    site.bytes += bytes
    if (site.bytes === 0 && site.unfinished.size === 0) sites.delete(siteName)
  }

  function requireShare(network: string, bytes: number): void {
    if ((byNetwork.get(network) ?? 0) + bytes > perNetwork) throw noRoom()
  }

  function makeRoom(siteName: string, bytes: number): void {
    const own = siteOf(siteName)
    while (used + bytes > total) {
      const droppable = [...sites.values()].filter(({ unfinished }) => unfinished.size > 0)
      const most = droppable.reduce((max, site) => (site.bytes > max.bytes ? site : max), own)
      const [oldest] = most.unfinished
      if (most.bytes <= own.bytes + bytes || !oldest) throw noRoom()
      const [holding, drop] = oldest
      drop(noRoom())
      holding.release()
    }
  }

  return {
    open(network, announced) {
      requireShare(network, announced)
      const siteName = widerNetworkOf(network)
      let held = 0
      let isReleased = false
      const holding: Holding = {
        take(bytes) {
          if (isReleased) return
          requireShare(network, bytes)
          makeRoom(siteName, bytes)
          held += bytes
          add(network, siteName, bytes)
        },
        onDrop(drop) {
          const { unfinished } = siteOf(siteName)
          if (drop && !isReleased) unfinished.set(holding, drop)
          else unfinished.delete(holding)
          add(network, siteName, 0)
        },
        release() {
          isReleased = true
          siteOf(siteName).unfinished.delete(holding)
          add(network, siteName, -held)
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
