/** Entries with equal keys go one at a time, in order of arrival. */
export function createKeyedQueue<Entry>(keyOf?: (entry: Entry) => string) {
  let ready: Entry[] = []
  /** For each key that is ready or taken: the entries behind it. */
  const behind = new Map<string, Entry[]>()
  let size = 0
  return {
    get size() {
      return size
    },
    add(entry: Entry): void {
      size += 1
      const key = keyOf?.(entry)
      const queue = key === undefined ? undefined : behind.get(key)
      if (queue) queue.push(entry)
      else {
        ready.push(entry)
        if (key !== undefined) behind.set(key, [])
      }
    },
    take(max: number): Entry[] {
      const taken = ready.splice(0, max)
      size -= taken.length
      return taken
    },
    /** Call it once for each taken entry, after it settled. */
    release(entry: Entry): void {
      if (!keyOf) return
      const key = keyOf(entry)
      const next = behind.get(key)?.shift()
      if (next) ready.push(next)
      else behind.delete(key)
    },
    clear(): Entry[] {
      const all = [...ready, ...[...behind.values()].flat()]
      // Keys in `ready` have no taken entry. The others do, and its release removes the key.
      if (keyOf) for (const entry of ready) behind.delete(keyOf(entry))
      for (const queue of behind.values()) queue.length = 0
      ready = []
      size = 0
      return all
    },
  }
}
