import { overloaded } from '../errors.ts'
import * as faults from './faults.ts'
import { createKeyedQueue } from './keyed-queue.ts'

/** Items that arrive while a statement is in flight share the next one, because two of half the size cost a third more. */

export interface BatchOptions<Item, Outcome> {
  run(items: Item[]): Promise<Outcome[]>
  /** Items with equal keys run one after the other: the second must see the effect of the first. */
  keyOf?(item: Item): string
  /** Whether one item can have caused the error. Then each is retried in its own statement. */
  isItemFault?(error: unknown): boolean
  /** Whether no statement can succeed now. Then all waiting items fail immediately. */
  isOutage?(error: unknown): boolean
  /** `setImmediate` lets the event loop finish this iteration, which halves the statements. */
  schedule?(flush: () => void): void
  maxSize?: number
  maxInFlight?: number
  /** Further items are rejected with Problem overloaded. */
  maxWaiting?: number
  /** After this wait for a statement in flight, a second one is sent. */
  patienceMs?: number
  /** Retries of single items: how many at the same time, and for how long. */
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

  /** A second statement is sent only if the one in flight is late, or if the second is full. */
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

  /** After a long iteration of the event loop, timers fire before replies that have arrived. */
  function afterReplies(): void {
    const timer = impatience
    setImmediate(() => {
      // Otherwise a statement was sent in the meantime.
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

  /** The statement was one transaction and changed nothing, so each item can be retried. */
  function setAside(entries: Entry<Item, Outcome>[], error: unknown): void {
    for (const entry of entries) aside.add(entry)
    tryAlone()
    const before = succeeded
    setTimeout(() => {
      // If nothing has succeeded in the meantime, the cause is load, not an item: retries would add to it.
      if (succeeded === before && entries.some((entry) => aside.has(entry))) failWaiting(error)
      else failAside(entries, error)
      flush()
    }, maxRetryMs).unref()
  }

  /** New items do not wait for these, because one of them can be slow again. */
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

/** `ord` starts at 1. An item without a row gets null. */
export function inOrder<Row>(length: number, rows: (Row & { ord: number })[]): (Row | null)[] {
  const found: (Row | null)[] = Array.from({ length }, () => null)
  for (const row of rows) found[row.ord - 1] = row
  return found
}
