import type { Rule } from './search.ts'

/**
 * The signing secret of a company: versions follow each other without a gap, each with a secret of its own. A signature holds
 * with the secret of this moment and with no other; a version that is expected and is not there is a conflict.
 */
export type SecretPart = { kind: 'secret'; id: string } & (
  | { act: 'regenerate'; expected: number | null; version: number | null; secret: string | null }
  | { act: 'status'; version: number | null }
  /** A request signed with it. */
  | { act: 'sign'; secret: string }
)

interface State {
  version: number
  /** `?` if only a lost answer had it. */
  secret: string
}

export const secretRule: Rule<State, SecretPart> = {
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
    if (part.act === 'status') return outcome === 'ok' && (part.version ?? 0) !== state.version ? [] : [state]
    const isCurrent = part.secret === state.secret
    // A conflict is told once the signature holds.
    if (outcome === 'ok' || code === 'event_id_conflict') return isCurrent ? [state] : []
    return code === 'invalid_signature' && isCurrent ? [] : [state]
  },
  isRead: ({ act }, { outcome }) => act !== 'regenerate' || outcome === 'refused',
}
