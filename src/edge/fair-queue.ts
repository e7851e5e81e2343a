import { widerNetworkOf } from './network.ts'

/**
 * A queue that strangers share fairly. Wider networks take turns (see `widerNetworkOf`), the networks of one take
 * turns among themselves, so do the devices of a network, and the entries of one device go in order of arrival.
 */
interface Sender {
  network: string
  /** Only one that is known for the member. Entries without one count as those of one device. */
  device?: string | undefined
}

/** For whom work is done. */
export interface Turn extends Sender {
  /** Whether network or device are known. Half of the work is kept for these. */
  isKnown: boolean
  /** Aborted when it is too late for the work and for what follows from it. */
  signal?: AbortSignal
}

/** Of all entries, and of those of one wider network. */
interface Bounds {
  max: number
  maxPerWiderNetwork: number
}

/** A queue of two halves, each in a fair order: those who are known, and strangers. The bounds are those of each. */
export function createTurnQueue<Entry>(bounds: Bounds) {
  const known = createFairQueue<Entry>(bounds)
  const strangers = createFairQueue<Entry>(bounds)
  const halfOf = ({ isKnown }: Turn) => (isKnown ? known : strangers)
  let lastWasKnown = false
  return {
    get size() {
      return known.size + strangers.size
    },
    add: (turn: Turn, entry: Entry) => halfOf(turn).add(turn, entry),
    refuses: (turn: Turn) => halfOf(turn).refuses(turn),
    /** Whether a network, known or not, has used up its share. */
    refusesShare: (network: string) => known.refusesShare({ network }) || strangers.refusesShare({ network }),
    /** Strictly in turn, so that each half gets its half, and more if the other does not need it. */
    take() {
      lastWasKnown = !lastWasKnown
      return lastWasKnown ? (known.take() ?? strangers.take()) : (strangers.take() ?? known.take())
    },
    takeKnown: known.take,
  }
}

interface Node<Entry> {
  size: number
  /** In the order of their turns. */
  children: Map<string, Node<Entry>>
  entries: Entry[]
}

export function createFairQueue<Entry>({ max, maxPerWiderNetwork }: Bounds) {
  const all = newNode<Entry>()

  /** Whether the wider network has used up its share, however few others wait. */
  function refusesShare({ network, device = '' }: Sender): boolean {
    const wider = all.children.get(widerNetworkOf(network))
    return (
      (wider?.size ?? 0) >= maxPerWiderNetwork &&
      isLargest(wider?.children, network) &&
      isLargest(wider?.children.get(network)?.children, device)
    )
  }

  return {
    get size() {
      return all.size
    },
    /**
     * If the queue is full, removes and returns the newest entry of the wider network that has most; if the wider
     * network is full, the newest of its network that has most. That can be the entry itself.
     */
    add({ network, device = '' }: Sender, entry: Entry): Entry | undefined {
      const wider = widerNetworkOf(network)
      addTo(all, [wider, network, device], entry)
      if ((all.children.get(wider)?.size ?? 0) > maxPerWiderNetwork) return dropFrom(all, [wider])
      return all.size > max ? dropFrom(all, []) : undefined
    },
    /** Whether `add` would return its own entry. */
    refuses: (sender: Sender) =>
      refusesShare(sender) || (all.size >= max && isLargest(all.children, widerNetworkOf(sender.network))),
    refusesShare,
    take: () => (all.size === 0 ? undefined : takeFrom(all)),
  }
}

function newNode<Entry>(): Node<Entry> {
  return { size: 0, children: new Map(), entries: [] }
}

function addTo<Entry>(node: Node<Entry>, [key, ...rest]: string[], entry: Entry): void {
  node.size += 1
  if (key === undefined) {
    node.entries.push(entry)
    return
  }
  const child = node.children.get(key) ?? newNode<Entry>()
  node.children.set(key, child)
  addTo(child, rest, entry)
}

/** Takes the first entry of the child whose turn it is, which goes to the end. */
function takeFrom<Entry>(node: Node<Entry>): Entry | undefined {
  node.size -= 1
  const [next] = node.children
  if (!next) return node.entries.shift()
  const [key, child] = next
  node.children.delete(key)
  const entry = takeFrom(child)
  if (child.size > 0) node.children.set(key, child)
  return entry
}

/** Removes the newest entry below a path, in the largest children. */
function dropFrom<Entry>(node: Node<Entry>, [key, ...rest]: string[]): Entry | undefined {
  node.size -= 1
  const chosen = key ?? largestOf(node.children)
  const child = chosen === undefined ? undefined : node.children.get(chosen)
  if (chosen === undefined || !child) return node.entries.pop()
  const entry = dropFrom(child, rest)
  if (child.size === 0) node.children.delete(chosen)
  return entry
}

/** Of several that are equally large, the one whose turn comes last. */
function largestOf(children: Map<string, Node<unknown>>): string | undefined {
  let largest: string | undefined
  let size = 0
  for (const [key, child] of children) {
    if (child.size < size) continue
    largest = key
    size = child.size
  }
  return largest
}

/** Whether a child would be the largest, or one of them, with one entry more. */
function isLargest(children: Map<string, Node<unknown>> | undefined, key: string): boolean {
  const size = (children?.get(key)?.size ?? 0) + 1
  return [...(children?.values() ?? [])].every((child) => child.size <= size)
}
