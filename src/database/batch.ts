/**
 * Many callers, one statement. What arrives while statements are in flight is collected and sent as the
 * next one, so a busy instance pays one round trip per batch, and an idle one sends a batch of one at once.
 * It is no timer: nobody ever waits for company.
 */

export interface BatchOptions<Item, Outcome> {
  /** Runs one statement and returns the outcomes in the order of the items. */
  run(items: Item[]): Promise<Outcome[]>
  /** Items with equal keys never share a statement: the second must see what the first did. */
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
  let waiting: Entry<Item, Outcome>[] = []
  let inFlight = 0

  /** The next statement's items, oldest first; what repeats a key stays behind, in order. */
  function takeNext(): Entry<Item, Outcome>[] {
    if (!keyOf) return waiting.splice(0, maxSize)
    const taken: Entry<Item, Outcome>[] = []
    const left: Entry<Item, Outcome>[] = []
    const keys = new Set<string>()
    for (const entry of waiting) {
      const key = keyOf(entry.item)
      if (taken.length < maxSize && !keys.has(key)) taken.push(entry)
      else left.push(entry)
      // Also of one left behind: a third must not overtake the second.
      keys.add(key)
    }
    waiting = left
    return taken
  }

  function flush(): void {
    while (inFlight < maxInFlight && waiting.length > 0) {
      inFlight += 1
      const entries = takeNext()
      void settle(entries).finally(() => {
        inFlight -= 1
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
    if (waiting.length >= maxWaiting) return Promise.reject(overloaded())
    const { promise, resolve, reject } = Promise.withResolvers<Outcome>()
    waiting.push({ item, resolve, reject })
    flush()
    return promise
  }
}
