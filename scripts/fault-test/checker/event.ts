import type { Rule } from './search.ts'

/**
 * An event id of a company: it is stored once, with one content, for good. The same content again is a duplicate, another is a
 * conflict; what was refused is not stored.
 */
export type EventPart = {
  kind: 'event'
  id: string
} /** `isNew` is null in a batch, whose answer counts and does not name. `isNamed`: a conflict names it. */ & (
  | { act: 'send'; content: string; isNew: boolean | null; isNamed: boolean }
  /** All that is stored of it. */
  | { act: 'read'; contents: string[] }
)

export const eventRule: Rule<string | null, EventPart> = {
  initial: null,
  next(stored, part, { outcome }) {
    if (part.act === 'read') {
      const isAsStored = part.contents.length <= 1 && (part.contents[0] ?? null) === stored
      return isAsStored ? [stored] : []
    }
    const { content, isNew, isNamed } = part
    if (outcome === 'refused') return isNamed && (stored === null || stored === content) ? [] : [stored]
    if (outcome === 'unknown') return [stored ?? content]
    if (isNew === true) return stored === null ? [content] : []
    if (isNew === false) return stored === content ? [stored] : []
    return stored === null || stored === content ? [content] : []
  },
  isRead: ({ act }, { outcome }) => act === 'read' || outcome === 'refused',
}
