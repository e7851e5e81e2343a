/** Entries in the order of their arrival. Of those with equal keys, one is out at a time. */
export interface KeyedQueue<Entry> {
  /** How many wait. */
  readonly size: number
  add(entry: Entry): void
  /** Takes out the oldest that can go, at most `max`; no two with the same key. */
  take(max: number): Entry[]
  /** Lets the next with this entry's key go, once the entry, which was taken out, is settled. */
  release(entry: Entry): void
  /** Takes out all that wait. */
  clear(): Entry[]
}

export function createKeyedQueue<Entry>(keyOf?: (entry: Entry) => string): KeyedQueue<Entry> {
  /** What can go: oldest first, no two with the same key. */
  let ready: Entry[] = []
  /** For each key that is ready or out: what must wait until that is settled, in order. */
  const behind = new Map<string, Entry[]>()
  let size = 0
  return {
    get size() {
      return size
    },
    add(entry) {
      size += 1
      const key = keyOf?.(entry)
      const queue = key === undefined ? undefined : behind.get(key)
      if (queue) queue.push(entry)
      else {
        ready.push(entry)
        if (key !== undefined) behind.set(key, [])
      }
    },
    take(max) {
      const taken = ready.splice(0, max)
      size -= taken.length
      return taken
    },
    release(entry) {
      if (!keyOf) return
      const key = keyOf(entry)
      const next = behind.get(key)?.shift()
      if (next) ready.push(next)
      else behind.delete(key)
    },
    clear() {
      const all = [...ready, ...[...behind.values()].flat()]
      // Nothing is out for the keys of `ready`. For the others something is, and will release them.
      if (keyOf) for (const entry of ready) behind.delete(keyOf(entry))
      for (const queue of behind.values()) queue.length = 0
      ready = []
      size = 0
      return all
    },
  }
}
