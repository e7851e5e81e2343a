import type { Operation } from './history.ts'

/** A batch is stored whole or not at all: those of which a part is stored, of the events that came with no others. */
export function findDivided(history: readonly Operation[]): Operation[] {
  /** The batches in which it came. */
  const batches = new Map<string, Set<string>>()
  const stored = new Set<string>()
  for (const operation of history) {
    const ids = idsOf(operation)
    for (const id of ids) batches.set(id, (batches.get(id) ?? new Set()).add(ids.join()))
    for (const part of operation.parts)
      if (part.kind === 'event' && part.act === 'read' && part.contents.length > 0) stored.add(part.id)
  }
  return history.filter((operation) => {
    const own = idsOf(operation).filter((id) => batches.get(id)?.size === 1)
    const count = own.filter((id) => stored.has(id)).length
    return count > 0 && count < own.length
  })
}

function idsOf({ parts }: Operation): string[] {
  return parts.flatMap((part) => (part.kind === 'event' && part.act === 'send' ? [part.id] : []))
}
