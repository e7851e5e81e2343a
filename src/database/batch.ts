import { overloaded } from '../errors.ts'
import * as faults from './faults.ts'
import { createKeyedQueue } from './keyed-queue.ts'

/**
 * Sends many requests as one statement. Items that arrive while a statement is in flight are collected and sent
 * together as the next one, which is what makes a busy route cheap: two statements at a time of half the size cost a
 * third more. An item waits only for that, and never for items that have not arrived (see `schedule`). If the statement
 * takes long, because it waits for a lock for example, another one goes beside it.
 */

export interface BatchOptions<Item, Outcome> {
  /** Runs one statement and returns the outcomes in the order of the items. */
  run(items: Item[]): Promise<Outcome[]>
  /** Items with equal keys are sent one after the other: the second must see the effect of the first. */
  keyOf?(item: Item): string
  /** Whether one item can have caused the error. Then each item is tried in a statement of its own. */
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
  /** How long items wait for a statement in flight before another one goes beside it, if it has room for more. */
  patienceMs?: number
  /** Bounds, after an error of one item: statements that try single items at once, and for how long. */
  maxAlone?: number
  maxRetryMs?: number
}

/** Wraps `run` so that the sizes of its batches are measured, under a name for the metrics. */
export type MeasureBatch = <Item, Outcome>(
  name: string,
  run: (items: Item[]) => Promise<Outcome[]>,
) => (items: Item[]) => Promise<Outcome[]>

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
  isOutage = faults.isOutage,
  schedule = (flush) => flush(),
  maxSize = 128,
  maxInFlight = 2,
  maxWaiting = 10_000,
  patienceMs = 10,
  maxAlone = 4,
  maxRetryMs = 2_000,
}: BatchOptions<Item, Outcome>): Batch<Item, Outcome> {
  const queue = createKeyedQueue<Entry<Item, Outcome>>(keyOf && (({ item }) => keyOf(item)))
  let inFlight = 0
  let isScheduled = false
  let impatience: NodeJS.Timeout | undefined
  /** Statements that succeeded. */
  let succeeded = 0
  /** Items to try alone, and how many of them are in flight. */
  const aside = new Set<Entry<Item, Outcome>>()
  let alone = 0

  function flushSoon(): void {
    if (isScheduled || inFlight >= maxInFlight) return
    isScheduled = true
    schedule(() => {
      isScheduled = false
      flush()
    })
  }

  /** While a statement is in flight, sends another one only if that is late, or so many wait that it would be full. */
  function flush(isLate = false): void {
    while (inFlight < maxInFlight && queue.size > 0) {
      if (inFlight > 0 && !isLate && queue.size < maxSize) {
        impatience ??= setTimeout(afterReplies, patienceMs)
        return
      }
      const entries = queue.take(maxSize)
      if (entries.length === 0) return
      clearTimeout(impatience)
      impatience = undefined
      inFlight += 1
      void send(entries).finally(() => {
        inFlight -= 1
        flush()
      })
    }
  }

  /** After a long turn of the event loop, timers come before the replies that have arrived meanwhile. These count first. */
  function afterReplies(): void {
    const timer = impatience
    setImmediate(() => {
      // Otherwise a statement has been sent by now.
      if (impatience !== timer) return
      impatience = undefined
      flush(true)
    })
  }

  async function send(entries: Entry<Item, Outcome>[]): Promise<void> {
    try {
      settle(entries, await run(entries.map(({ item }) => item)))
      succeeded += 1
    } catch (error) {
      if (entries.length > 1 && isItemFault(error)) return setAside(entries, error)
      for (const entry of entries) entry.reject(error)
      if (isOutage(error)) failWaiting(error)
    }
    entries.forEach(queue.release)
  }

  /** The statement is one transaction and changed nothing, so each of its items can be tried alone. */
  function setAside(entries: Entry<Item, Outcome>[], error: unknown): void {
    for (const entry of entries) aside.add(entry)
    tryAlone()
    const before = succeeded
    setTimeout(() => {
      // If nothing has succeeded since, the cause is the load and not one of the items: more tries would add to it.
      if (succeeded === before && entries.some((entry) => aside.has(entry))) failWaiting(error)
      else failAside(entries, error)
      flush()
    }, maxRetryMs).unref()
  }

  /** New items do not wait for these, since one of them can be slow again. */
  function tryAlone(): void {
    for (const entry of aside) {
      if (alone === maxAlone) return
      aside.delete(entry)
      alone += 1
      void send([entry]).finally(() => {
        alone -= 1
        tryAlone()
        flush()
      })
    }
  }

  function failAside(entries: Iterable<Entry<Item, Outcome>>, error: unknown): void {
    for (const entry of entries) {
      if (!aside.delete(entry)) continue
      entry.reject(error)
      queue.release(entry)
    }
  }

  function failWaiting(error: unknown): void {
    for (const entry of queue.clear()) entry.reject(error)
    failAside(aside, error)
  }

  return (item) => {
    if (queue.size + aside.size >= maxWaiting) return Promise.reject(overloaded())
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
