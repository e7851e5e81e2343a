import type { Rule } from './search.ts'

export type EventPart = { kind: 'event'; id: string } & (
  | {
      act: 'send'
      content: string
      /** Null in a batch: its response has only counts. */
      isNew: boolean | null
      isNamed: boolean
    }
  | { act: 'read'; contents: string[] }
)

/** Stored once. The same content again is a duplicate; different content is a conflict. */
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

export type SecretPart = { kind: 'secret'; id: string } & (
  | { act: 'regenerate'; expected: number | null; version: number | null; secret: string | null }
  | { act: 'sign'; secret: string }
)

interface SecretState {
  version: number
  /** `?` if the response with it was lost. */
  secret: string
}

/** Versions have no gaps. Only the current secret signs. An outdated expected version is a conflict. */
export const secretRule: Rule<SecretState, SecretPart> = {
  initial: { version: 0, secret: '' },
  next(state, part, { outcome, code }) {
    if (part.act === 'regenerate') {
      const { expected, version, secret } = part
      const isExpected = expected === null || expected === state.version
      const next = state.version + 1
      if (outcome === 'refused') return code === 'version_conflict' && isExpected ? [] : [state]
      if (outcome === 'unknown') return isExpected ? [{ version: next, secret: '?' }] : [state]
      return isExpected && version === next && secret !== null ? [{ version, secret }] : []
    }
    const isCurrent = part.secret === state.secret
    // A conflict is reported only after the signature was accepted.
    if (outcome === 'ok' || code === 'event_id_conflict') return isCurrent ? [state] : []
    return code === 'invalid_signature' && isCurrent ? [] : [state]
  },
  isRead: ({ act }, { outcome }) => act !== 'regenerate' || outcome === 'refused',
}

export type TokenPart = { kind: 'token'; id: string; act: 'consume' | 'revoke' }

/** Works exactly once, unless it was revoked: withdrawn, or replaced by a newer email. */
export const tokenRule: Rule<'active' | 'used' | 'revoked', TokenPart> = {
  initial: 'active',
  next(state, { act }, { outcome, code }) {
    const isActive = state === 'active'
    if (outcome === 'refused')
      return code === (act === 'revoke' ? 'not_found' : 'invalid_request') && isActive ? [] : [state]
    if (act === 'revoke') return [isActive ? 'revoked' : state]
    if (outcome === 'ok' && !isActive) return []
    return [isActive ? 'used' : state]
  },
  isRead: (_, { outcome }) => outcome === 'refused',
}
