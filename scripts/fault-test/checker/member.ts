import type { Rule } from './search.ts'

/**
 * A member of a company: role, status, e-mail and password are what the last change made them. Who is not active, or gives
 * another e-mail or password, does not sign in; who is and gives the right ones is not refused for it. A member who was deleted
 * stays so.
 */
export type MemberPart = { kind: 'member'; id: string } & (
  | { act: 'make'; role: string; email: string; password: string }
  | { act: 'change'; role?: string; status?: 'active' | 'disabled' }
  | { act: 'delete' }
  | { act: 'read'; role: string; status: string }
  /** `from` is null where a mailed token proves it, and `to` where the password is void from then on. */
  | { act: 'password'; from: string | null; to: string | null }
  /** A mailed link confirms another e-mail. */
  | { act: 'move'; email: string }
  /** A mailed link takes the e-mail back, and voids the password. */
  | { act: 'undo'; email: string }
  /** Also if a second factor is asked for then. */
  | { act: 'sign-in'; email: string; password: string }
)

interface State {
  /** Empty before there is such a member. */
  status: '' | 'active' | 'disabled' | 'deleted'
  role: string
  email: string
  password: string | null
}

export const memberRule: Rule<State, MemberPart> = {
  initial: { status: '', role: '', email: '', password: null },
  next(state, part, { outcome, code }) {
    if (part.act === 'sign-in') {
      const { email, password } = part
      const isRight = state.status === 'active' && state.email === email && state.password === password
      if (outcome === 'ok' || code === 'second_factor_required') return isRight ? [state] : []
      return code === 'invalid_credentials' && isRight ? [] : [state]
    }
    const isThere = state.status === 'active' || state.status === 'disabled'
    if (outcome === 'refused') return code === 'not_found' && isThere ? [] : [state]
    if (part.act === 'make') {
      const { role, email, password } = part
      if (state.status !== '') return outcome === 'ok' ? [] : [state]
      return [{ status: 'active', role, email, password }]
    }
    if (!isThere) return outcome === 'ok' ? [] : [state]
    switch (part.act) {
      case 'read':
        return outcome === 'ok' && (part.role !== state.role || part.status !== state.status) ? [] : [state]
      case 'change':
        return [{ ...state, role: part.role ?? state.role, status: part.status ?? state.status }]
      case 'delete':
        return [{ ...state, status: 'deleted', password: null }]
      case 'move':
        return [{ ...state, email: part.email }]
      case 'undo':
        return [{ ...state, email: part.email, password: null }]
      case 'password':
        if (part.from === null || part.from === state.password) return [{ ...state, password: part.to }]
        return outcome === 'ok' ? [] : [state]
    }
  },
  isRead: ({ act }, { outcome }) => act === 'read' || act === 'sign-in' || outcome === 'refused',
}
