/**
 * Many callers, one statement. What arrives while statements are in flight is collected and sent as the
 * next one, so a busy instance pays one round trip per batch, and an idle one sends a batch of one at once.
 * It is no timer: nobody ever waits for company.
 */

export interface BatchOptions<Item, Outcome> {
  /** Runs one statement and returns the outcomes in the order of the items. */
  run(items: Item[]): Promise<Outcome[]>
  /** Items with equal keys go one after the other, in order: the second must see what the first did. */
  keyOf?(item: Item): string
  /** Whether an error is the fault of some item's data, so that its neighbours deserve a statement without it. */
  isItemFault(error: unknown): boolean
  /** What to throw when `maxWaiting` items wait already. */
  overloaded(): Error
  maxSize: number
  maxInFlight: number
  maxWaiting: number
}

export type Batch<Item, Outcome> = (item: Item) => Promise<Outcome>

interface Entry<Item, Outcome> {
  item: Item
  resolve(outcome: Outcome): void
  reject(error: unknown): void
}

export function createBatch<Item, Outcome>(options: BatchOptions<Item, Outcome>): Batch<Item, Outcome> {
  const { run, keyOf, isItemFault, overloaded, maxSize, maxInFlight, maxWaiting } = options
  /** Oldest first, no two with the same key. */
  const ready: Entry<Item, Outcome>[] = []
  /** By each key that is ready or in flight: who must wait until it is settled, in order. */
  const behind = new Map<string, Entry<Item, Outcome>[]>()
  let waiting = 0
  let inFlight = 0

  function enqueue(entry: Entry<Item, Outcome>): void {
    waiting += 1
    const key = keyOf?.(entry.item)
    const queue = key === undefined ? undefined : behind.get(key)
    if (queue) queue.push(entry)
    else {
      ready.push(entry)
      if (key !== undefined) behind.set(key, [])
    }
  }

  /** Makes ready who waited for this entry's key. */
  function releaseKey({ item }: Entry<Item, Outcome>): void {
    if (!keyOf) return
    const key = keyOf(item)
    const next = behind.get(key)?.shift()
    if (next) ready.push(next)
    else behind.delete(key)
  }

  function flush(): void {
    while (inFlight < maxInFlight && ready.length > 0) {
      const entries = ready.splice(0, maxSize)
      waiting -= entries.length
      inFlight += 1
      void settle(entries).finally(() => {
        inFlight -= 1
        entries.forEach(releaseKey)
        flush()
      })
    }
  }

  async function settle(entries: Entry<Item, Outcome>[]): Promise<void> {
    try {
      const outcomes = await run(entries.map(({ item }) => item))
      entries.forEach((entry, index) => {
        const outcome = outcomes[index]
        if (outcome === undefined) entry.reject(new Error('a batch returned fewer outcomes than items'))
        else entry.resolve(outcome)
      })
    } catch (error) {
      // The statement is one transaction: it did nothing, so each item can be tried by itself.
      if (entries.length > 1 && isItemFault(error)) for (const entry of entries) await settle([entry])
      else for (const entry of entries) entry.reject(error)
    }
  }

  return (item) => {
    if (waiting >= maxWaiting) return Promise.reject(overloaded())
    const { promise, resolve, reject } = Promise.withResolvers<Outcome>()
    enqueue({ item, resolve, reject })
    flush()
    return promise
  }
}
