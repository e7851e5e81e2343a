import { overloaded } from '../errors.ts'
import * as faults from './faults.ts'
import { createKeyedQueue } from './keyed-queue.ts'

/**
 * Many requests, one statement. What arrives while statements are in flight is collected and sent as the next
 * one: a busy instance pays one round trip per batch, an idle one sends a batch of one. There is no timer:
 * nothing waits for more to come, at most for what has arrived already (see `schedule`).
 */

export interface BatchOptions<Item, Outcome> {
  /** Runs one statement and returns the outcomes in the order of the items. */
  run(items: Item[]): Promise<Outcome[]>
  /** Items with equal keys go one after the other, in order: the second must see what the first did. */
  keyOf?(item: Item): string
  /** Whether an error is the fault of one item, so that the others should be tried without it. */
  isItemFault?(error: unknown): boolean
  /** Whether an error means that no statement would succeed now: then all that wait fail at once. */
  isOutage?(error: unknown): boolean
  /**
   * When an item that finds room is sent: at once by default. With `setImmediate` it goes with all that
   * arrives in the same turn of the event loop, which on a busy route halves the statements.
   */
  schedule?(flush: () => void): void
  /** Items in a statement, statements in flight, and items that wait, beyond which one is refused. */
  maxSize?: number
  maxInFlight?: number
  maxWaiting?: number
}

export type Batch<Item, Outcome> = (item: Item) => Promise<Outcome>

interface Entry<Item, Outcome> {
  item: Item
  resolve(outcome: Outcome): void
  reject(error: unknown): void
}

/** @throws Problem overloaded, from the function that it returns */
export function createBatch<Item, Outcome>({
  run,
  keyOf,
  isItemFault = faults.isItemFault,
  isOutage = faults.isUnavailable,
  schedule = (flush) => flush(),
  maxSize = 128,
  maxInFlight = 2,
  maxWaiting = 10_000,
}: BatchOptions<Item, Outcome>): Batch<Item, Outcome> {
  const queue = createKeyedQueue<Entry<Item, Outcome>>(keyOf && (({ item }) => keyOf(item)))
  let inFlight = 0
  let isScheduled = false

  function flushSoon(): void {
    if (isScheduled || inFlight >= maxInFlight) return
    isScheduled = true
    schedule(() => {
      isScheduled = false
      flush()
    })
  }

  function flush(): void {
    while (inFlight < maxInFlight) {
      const entries = queue.take(maxSize)
      if (entries.length === 0) return
      inFlight += 1
      void send(entries).finally(() => {
        inFlight -= 1
        flush()
      })
    }
  }

  async function send(entries: Entry<Item, Outcome>[]): Promise<void> {
    try {
      settle(entries, await run(entries.map(({ item }) => item)))
    } catch (error) {
      if (entries.length > 1 && isItemFault(error)) {
        // The statement is one transaction and did nothing, so each item can be tried by itself. The next
        // batch does not wait for that, since one of these items may be slow again.
        for (const entry of entries) void send([entry]).finally(flush)
        return
      }
      for (const entry of entries) entry.reject(error)
      if (isOutage(error)) for (const entry of queue.clear()) entry.reject(error)
    }
    entries.forEach(queue.release)
  }

  return (item) => {
    if (queue.size >= maxWaiting) return Promise.reject(overloaded())
    const { promise, resolve, reject } = Promise.withResolvers<Outcome>()
    queue.add({ item, resolve, reject })
    flushSoon()
    return promise
  }
}

function settle<Item, Outcome>(entries: Entry<Item, Outcome>[], outcomes: Outcome[]): void {
  entries.forEach((entry, index) => {
    const outcome = outcomes[index]
    if (outcome === undefined) entry.reject(new Error('a batch returned fewer outcomes than items'))
    else entry.resolve(outcome)
  })
}

/** The rows of a batch by their items' ordinality, which counts from 1; null where an item has none. */
export function inOrder<Row>(length: number, rows: (Row & { ord: number })[]): (Row | null)[] {
  const found: (Row | null)[] = Array.from({ length }, () => null)
  for (const row of rows) found[row.ord - 1] = row
  return found
}
