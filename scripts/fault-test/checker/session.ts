import type { Rule, Seen, Step } from './search.ts'

/**
 * A session is opened once and ends once. After that, its tokens are rejected. Its current refresh token is exchanged for one
 * new successor. After that, only a retry with the same key is accepted. It gets the same successor while that one is unused.
 */
export type SessionPart = { kind: 'session'; id: string } & (
  | { act: 'open'; owner: string; token: string }
  | { act: 'use' }
  | { act: 'refresh'; token: string; key: string | null; successor: string | null }
  /** By logout (`isOwn`), which an ended session rejects, or by someone else. */
  | { act: 'end'; isOwn: boolean }
)

export interface SessionsPart {
  kind: 'sessions'
  act: 'end'
  id: string
  kept: string
}

interface State {
  isOpen: boolean
  isEnded: boolean
  /** `?` if the response with it was lost. */
  current: string
  spent: string[]
  keys: string[]
  /** Of the last exchange. */
  key: string | null
}

const UNKNOWN = '?'
const REFUSED = ['invalid_token', 'session_ended']

export const sessionRule: Rule<State, SessionPart> = {
  initial: { isOpen: false, isEnded: false, current: '', spent: [], keys: [], key: null },
  next(state, part, seen) {
    const { outcome, code } = seen
    if (part.act === 'open')
      return outcome === 'ok' && !state.isOpen ? [{ ...state, isOpen: true, current: part.token }] : []
    if (!state.isOpen) return part.act === 'end' && !part.isOwn ? [state] : []
    if (part.act === 'end') return end(state, part.isOwn, seen)
    if (code === 'session_ended') return state.isEnded ? [state] : []
    if (state.isEnded) return outcome === 'ok' ? [] : [state]
    if (part.act === 'refresh') return refresh(state, part, seen)
    return code === 'invalid_token' ? [] : [state]
  },
  isRead: ({ act }) => act === 'use',
}

const ended = (state: State): State => ({ ...state, isEnded: true })

function end(state: State, isOwn: boolean, { outcome, code }: Seen): State[] {
  if (outcome === 'refused') return REFUSED.includes(code) && !state.isEnded ? [] : [state]
  if (outcome === 'ok' && isOwn && state.isEnded) return []
  return [ended(state)]
}

function refresh(
  state: State,
  { token, key, successor }: Extract<SessionPart, { act: 'refresh' }>,
  { outcome, code }: Seen,
): State[] {
  const isCurrent = token === state.current
  const isRepeat = token === state.spent.at(-1) && key === state.key
  const isOwnRetry = key !== null && state.keys.includes(key)
  if (outcome === 'ok') {
    if (isCurrent) return exchange(state, successor ?? UNKNOWN, key)
    return isRepeat ? repeat(state, successor) : []
  }
  if (outcome === 'unknown') {
    if (isCurrent) return exchange(state, UNKNOWN, key)
    // Late and without its key, this is theft.
    return isOwnRetry ? [state] : [state, ended(state)]
  }
  if (code === 'refresh_reuse') return isCurrent || isOwnRetry ? [] : [ended(state)]
  if (code === 'refresh_token_reused') {
    const isOlder = state.spent.slice(0, -1).includes(token) && !isOwnRetry
    return isCurrent || (isRepeat && key !== null) || isOlder ? [] : [state]
  }
  return code === 'invalid_token' ? [] : [state]
}

function exchange(state: State, successor: string, key: string | null): State[] {
  const spent = [...state.spent, state.current]
  if (successor !== UNKNOWN && spent.includes(successor)) return []
  const keys = key === null ? state.keys : [...state.keys, key]
  return [{ ...state, current: successor, spent, keys, key }]
}

function repeat(state: State, successor: string | null): State[] {
  if (successor === null) return []
  return state.current === successor || state.current === UNKNOWN ? [{ ...state, current: successor }] : []
}

/** Without a key, only concurrent requests share a successor. Finds the second of two that do not overlap. */
export function findSharedLater<S extends Step<SessionPart>>(steps: readonly S[]): S | undefined {
  const refreshes = steps.flatMap((step) =>
    step.part.act === 'refresh' && step.part.key === null && step.outcome === 'ok'
      ? [{ step, token: step.part.token }]
      : [],
  )
  const isLater = (one: (typeof refreshes)[number]) =>
    refreshes.some(({ step, token }) => token === one.token && step.end < one.step.begin)
  return refreshes.find(isLater)?.step
}
