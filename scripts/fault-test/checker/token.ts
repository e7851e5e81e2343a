import type { Rule } from './search.ts'

/**
 * A mailed token, and the invitation it belongs to: it works once, and until then it works, unless it was made void (withdrawn,
 * or replaced by a newer mail).
 */
export type TokenPart = { kind: 'token'; id: string; act: 'consume' | 'preview' | 'void' }

type State = 'live' | 'used' | 'void'

export const tokenRule: Rule<State, TokenPart> = {
  initial: 'live',
  next(state, { act }, { outcome, code }) {
    if (outcome === 'refused')
      return code === (act === 'void' ? 'not_found' : 'invalid_request') && state === 'live' ? [] : [state]
    if (act === 'void') return [state === 'live' ? 'void' : state]
    if (outcome === 'unknown') return [act === 'consume' && state === 'live' ? 'used' : state]
    if (state !== 'live') return []
    return [act === 'consume' ? 'used' : state]
  },
  isRead: ({ act }, { outcome }) => act === 'preview' || outcome === 'refused',
}
