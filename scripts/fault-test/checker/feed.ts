import type { Observed, Operation, Violation } from './history.ts'

/** What is legal for events together: batches, and the order of the feed. */

/** A batch is stored completely or not at all. This judges its events that were sent in no other batch. */
export function findDivided(history: readonly Operation[]): Violation[] {
  /** The batches that an event was sent in. */
  const batches = new Map<string, Set<string>>()
  const stored = new Set<string>()
  for (const operation of history) {
    const ids = sentIn(operation)
    for (const id of ids) batches.set(id, (batches.get(id) ?? new Set()).add(ids.join()))
    for (const part of operation.parts)
      if (part.kind === 'event' && part.act === 'read' && part.contents.length > 0) stored.add(part.id)
  }
  const divided = history.filter((operation) => {
    const own = sentIn(operation).filter((id) => batches.get(id)?.size === 1)
    const count = own.filter((id) => stored.has(id)).length
    return count > 0 && count < own.length
  })
  return divided.map((one) => ({ what: 'a batch was stored in part', operations: [one] }))
}

function sentIn({ parts }: Operation): string[] {
  return parts.flatMap((part) => (part.kind === 'event' && part.act === 'send' ? [part.id] : []))
}

/** What the feed returned is never removed or moved. */
export function findTakenBack({ feed, feedAtLast }: Omit<Observed, 'history'>): Violation[] {
  const moved = feed.find((id, index) => id !== feedAtLast[index])
  return moved === undefined
    ? []
    : [{ what: `event ${moved}: was returned, and is gone or has moved`, operations: [] }]
}

/** An event that was acknowledged before a different one was sent comes before it. */
export function findDisordered(history: readonly Operation[], feed: readonly string[]): Violation[] {
  const sends = new Map<string, { begin: number; acknowledged: number; operation: Operation }>()
  for (const operation of history)
    for (const id of sentIn(operation)) {
      const { begin, end, outcome } = operation
      const known = sends.get(id) ?? { begin, acknowledged: Number.POSITIVE_INFINITY, operation }
      known.begin = Math.min(known.begin, begin)
      if (outcome === 'ok') known.acknowledged = Math.min(known.acknowledged, end)
      sends.set(id, known)
    }
  let latestBegin = 0
  return feed.flatMap((id) => {
    const sent = sends.get(id)
    if (!sent) return [{ what: `event ${id} was never sent`, operations: [] }]
    const isLate = sent.acknowledged < latestBegin
    latestBegin = Math.max(latestBegin, sent.begin)
    return isLate
      ? [{ what: `event ${id}: came after one that was sent later`, operations: [sent.operation] }]
      : []
  })
}
