import { overloaded } from '../errors.ts'
import * as faults from './faults.ts'
import { createKeyedQueue } from './keyed-queue.ts'

/**
 * Sends many requests as one statement: items that arrive while one is in flight go together in the next. Two
 * statements of half the size cost a third more. Another one goes beside a slow statement (a lock).
 */

export interface BatchOptions<Item, Outcome> {
  run(items: Item[]): Promise<Outcome[]>
  /** Items with equal keys go one after the other: the second must see the effect of the first. */
  keyOf?(item: Item): string
  /** Whether one item can have caused the error. Then each is tried in a statement of its own. */
  isItemFault?(error: unknown): boolean
  /** Whether no statement can succeed now. Then all waiting items fail at once. */
  isOutage?(error: unknown): boolean
  /** By default at once. With `setImmediate`, after this iteration of the event loop: half the statements. */
  schedule?(flush: () => void): void
  /** Items per statement, statements in flight, waiting items. Beyond the last, items are refused. */
  maxSize?: number
  maxInFlight?: number
  maxWaiting?: number
  /** After this wait for a statement in flight, another one goes beside it. */
  patienceMs?: number
  /** After an error of one item: statements that try single items at once, and for how long. */
  maxAlone?: number
  maxRetryMs?: number
}

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

/** Rejects with Problem overloaded if `maxWaiting` items wait already. */
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
  let succeeded = 0
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

  /** While one statement is in flight, another goes only if that one is late or this one would be full. */
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

  /** After a long iteration of the event loop, timers come before replies that have arrived. */
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

  /** The statement was one transaction and changed nothing, so each item can be tried alone. */
  function setAside(entries: Entry<Item, Outcome>[], error: unknown): void {
    for (const entry of entries) aside.add(entry)
    tryAlone()
    const before = succeeded
    setTimeout(() => {
      // If nothing has succeeded since, the cause is load, not an item: more tries would add to it.
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

/** In the order of the items, by `ord` from 1; null for an item without a row. */
export function inOrder<Row>(length: number, rows: (Row & { ord: number })[]): (Row | null)[] {
  const found: (Row | null)[] = Array.from({ length }, () => null)
  for (const row of rows) found[row.ord - 1] = row
  return found
}
