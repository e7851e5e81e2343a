/** A queue. Entries with equal keys go one at a time, in order of arrival. */
interface KeyedQueue<Entry> {
  /** The number of entries that wait. */
  readonly size: number
  add(entry: Entry): void
  /** Takes at most `max` entries that are ready; no two have the same key. */
  take(max: number): Entry[]
  /** Makes the next entry with the same key ready. Call it once for each taken entry, when it is settled. */
  release(entry: Entry): void
  /** Removes and returns all entries that wait. */
  clear(): Entry[]
}

export function createKeyedQueue<Entry>(keyOf?: (entry: Entry) => string): KeyedQueue<Entry> {
  /** Entries that can be taken, in the order in which they became ready. No two have the same key. */
  let ready: Entry[] = []
  /** For each key that is ready or taken: the entries that wait behind it, in order of arrival. */
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
      // Keys in `ready` have no taken entry. Each other key has one, whose release removes the key.
      if (keyOf) for (const entry of ready) behind.delete(keyOf(entry))
      for (const queue of behind.values()) queue.length = 0
      ready = []
      size = 0
      return all
    },
  }
}
