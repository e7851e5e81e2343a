import type { Violation } from './check.ts'
import type { Operation } from './history.ts'

interface Given {
  history: readonly Operation[]
  /** The ids of events, in the order in which the feed gave them. */
  feed: readonly string[]
  /** The same, when all was read once more at the end. */
  feedAtLast: readonly string[]
}

/** What was given is never taken back, nor moved: where all that is read at the end is something else. */
export function findTakenBack({ feed, feedAtLast }: Pick<Given, 'feed' | 'feedAtLast'>): Violation[] {
  const at = feed.findIndex((id, index) => id !== feedAtLast[index])
  return at === -1
    ? []
    : [{ what: `event ${feed[at]}: was given, and is not there any more`, operations: [] }]
}

/** An event that was acknowledged before another one was sent comes before it: those that came after one that was sent later. */
export function findDisordered({ history, feed }: Pick<Given, 'history' | 'feed'>): Violation[] {
  const sends = new Map<string, { begin: number; acknowledged: number; operation: Operation }>()
  for (const operation of history) {
    const { begin, end, outcome, parts } = operation
    for (const part of parts) {
      if (part.kind !== 'event' || part.act !== 'send') continue
      const known = sends.get(part.id) ?? { begin, acknowledged: Number.POSITIVE_INFINITY, operation }
      known.begin = Math.min(known.begin, begin)
      if (outcome === 'ok') known.acknowledged = Math.min(known.acknowledged, end)
      sends.set(part.id, known)
    }
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
