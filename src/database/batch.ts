import { overloaded } from '../errors.ts'
import * as faults from './faults.ts'
import { createKeyedQueue } from './keyed-queue.ts'

/**
 * Sends many requests as one statement. Items that arrive while statements are in flight are collected and
 * sent together as the next one. There is no timer: an item never waits for items that have not arrived (see
 * `schedule`).
 */

export interface BatchOptions<Item, Outcome> {
  /** Runs one statement and returns the outcomes in the order of the items. */
  run(items: Item[]): Promise<Outcome[]>
  /** Items with equal keys are sent one after the other: the second must see the effect of the first. */
  keyOf?(item: Item): string
  /** Whether one item caused the error. Then each item is tried in a statement of its own. */
  isItemFault?(error: unknown): boolean
  /** Whether no statement can succeed now. Then all items that wait fail at once. */
  isOutage?(error: unknown): boolean
  /**
   * When an item that does not have to wait is sent: at once by default. `setImmediate` sends it with all
   * items of the same turn of the event loop, which halves the number of statements on a busy route.
   */
  schedule?(flush: () => void): void
  /** Bounds: items per statement, statements in flight, waiting items. Beyond the last, items are refused. */
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

/** The returned function rejects with Problem overloaded if `maxWaiting` items wait already. */
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
        // The statement is one transaction and changed nothing, so each item can be tried alone. The next
        // batch does not wait for these items, since one of them can be slow again.
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

/** The rows in the order of the items, by their ordinality (from 1); null for an item without a row. */
export function inOrder<Row>(length: number, rows: (Row & { ord: number })[]): (Row | null)[] {
  const found: (Row | null)[] = Array.from({ length }, () => null)
  for (const row of rows) found[row.ord - 1] = row
  return found
}
