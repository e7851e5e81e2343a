import type { Operation } from './history.ts'

/** A batch is stored whole or not at all: those of which a part is stored, of the events that came with nothing else. */
export function findDivided(history: readonly Operation[]): Operation[] {
  const sent = new Map<string, number>()
  const stored = new Set<string>()
  for (const part of history.flatMap(({ parts }) => parts)) {
    if (part.kind !== 'event') continue
    if (part.act === 'send') sent.set(part.id, (sent.get(part.id) ?? 0) + 1)
    else if (part.contents.length > 0) stored.add(part.id)
  }
  return history.filter(({ parts }) => {
    const ids = parts.flatMap((part) => (part.kind === 'event' && part.act === 'send' ? [part.id] : []))
    const own = ids.filter((id) => sent.get(id) === 1)
    const count = own.filter((id) => stored.has(id)).length
    return count > 0 && count < own.length
  })
}
