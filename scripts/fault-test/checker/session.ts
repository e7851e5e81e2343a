import type { Rule, Step } from './search.ts'
import type { Seen } from './seen.ts'

/**
 * A session: it is opened once and ends once. After its end, whoever ended it, none of its credentials is accepted. Its current
 * refresh token is exchanged for one successor, new each time; after that it is good only for its own retry (same
 * key), which gets the same successor while that one is unused. Of its cookies only the newest is good.
 */
export type SessionPart = {
  kind: 'session'
  id: string
} /** `owner` is a member. */ /** `token` is the first refresh token, or the cookie. */ & (
  | { act: 'open'; owner: string; token: string }
  /** A request with its access token, or with this cookie. */
  | { act: 'use'; cookie?: string }
  /** Recent proof with this cookie, which is exchanged for the next one. */
  | { act: 'renew'; cookie: string; successor: string | null }
  | { act: 'refresh'; token: string; key: string | null; successor: string | null }
  /** Recent proof with its access token. */
  | { act: 'prove'; key: string | null; successor: string | null }
  /** By logout (`isOwn`), which an ended session refuses, or by somebody else. */
  | { act: 'end'; isOwn: boolean }
)

/** The end of all sessions that a member has at that moment; `kept` is one that stays. */
export interface SessionsPart {
  kind: 'sessions'
  act: 'end'
  /** The member. */
  id: string
  kept: string | null
}

interface State {
  isOpen: boolean
  isEnded: boolean
  /** `?` if only a lost answer had it. */
  current: string
  spent: string[]
  /** Of all exchanges: with one of these there is no other. */
  keys: string[]
  /** Of the last exchange, and whether it was a proof. */
  key: string | null
  isProof: boolean
}

const UNKNOWN = '?'

export const sessionRule: Rule<State, SessionPart> = {
  initial: { isOpen: false, isEnded: false, current: '', spent: [], keys: [], key: null, isProof: false },
  next(state, part, seen) {
    if (part.act === 'open') {
      return seen.outcome === 'ok' && !state.isOpen ? [{ ...state, isOpen: true, current: part.token }] : []
    }
    // Ended before it was opened: that concerned older ones.
    if (!state.isOpen) return part.act === 'end' && !part.isOwn ? [state] : []
    if (part.act === 'end') return end(state, part.isOwn, seen)
    if (part.act === 'renew' && !state.isEnded) return renew(state, part, seen)
    if (seen.code === 'session_ended') return state.isEnded ? [state] : []
    if (state.isEnded) return seen.outcome === 'ok' ? [] : [state]
    if (part.act === 'refresh') return refresh(state, part, seen)
    if (part.act === 'prove') return prove(state, part, seen)
    return use(state, part.act === 'use' ? part.cookie : undefined, seen)
  },
  isRead: ({ act }) => act === 'use',
}

const ended = (state: State): State => ({ ...state, isEnded: true })

function end(state: State, isOwn: boolean, { outcome, code }: Seen): State[] {
  if (outcome === 'refused') return DEAD.includes(code) && !state.isEnded ? [] : [state]
  if (outcome === 'ok' && isOwn && state.isEnded) return []
  return [ended(state)]
}

function use(state: State, cookie: string | undefined, { outcome, code }: Seen): State[] {
  const isCurrent = cookie === undefined || cookie === state.current
  if (outcome === 'ok') return isCurrent ? [state] : []
  return code === 'invalid_token' && isCurrent ? [] : [state]
}

/** It has no retry: the answer to one is that the cookie is dead. */
function renew(
  state: State,
  { cookie, successor }: Extract<SessionPart, { act: 'renew' }>,
  { outcome, code }: Seen,
): State[] {
  const isCurrent = cookie === state.current
  if (outcome === 'refused') return DEAD.includes(code) && isCurrent ? [] : [state]
  if (isCurrent) return exchange(state, successor ?? UNKNOWN, null, true)
  return outcome === 'ok' ? [] : [state]
}

const DEAD = ['invalid_token', 'session_ended']

function refresh(
  state: State,
  { token, key, successor }: Extract<SessionPart, { act: 'refresh' }>,
  { outcome, code }: Seen,
): State[] {
  const isCurrent = token === state.current
  const isRepeat = !state.isProof && token === state.spent.at(-1) && key === state.key
  const isOwnRetry = key !== null && state.keys.includes(key)
  if (outcome === 'ok') {
    if (isCurrent) return exchange(state, successor ?? UNKNOWN, key, false)
    return isRepeat ? repeat(state, successor) : []
  }
  if (outcome === 'unknown') {
    if (isCurrent) return exchange(state, UNKNOWN, key, false)
    // Late and without its key it is theft.
    return isOwnRetry ? [state] : [state, ended(state)]
  }
  if (code === 'refresh_reuse') return isCurrent || isOwnRetry ? [] : [ended(state)]
  if (code === 'refresh_token_reused') {
    const isOlder = state.spent.slice(0, -1).includes(token) && !isOwnRetry
    return isCurrent || (isRepeat && key !== null) || isOlder ? [] : [state]
  }
  return code === 'invalid_token' ? [] : [state]
}

function prove(
  state: State,
  { key, successor }: Extract<SessionPart, { act: 'prove' }>,
  { outcome, code }: Seen,
): State[] {
  if (outcome === 'refused') return DEAD.includes(code) ? [] : [state]
  const isRepeat = key !== null && state.isProof && key === state.key
  if (isRepeat) return outcome === 'ok' ? repeat(state, successor) : [state]
  if (key !== null && state.keys.includes(key)) return outcome === 'ok' ? [] : [state]
  return exchange(state, successor ?? UNKNOWN, key, true)
}

function exchange(state: State, successor: string, key: string | null, isProof: boolean): State[] {
  const spent = [...state.spent, state.current]
  if (successor !== UNKNOWN && spent.includes(successor)) return []
  const keys = key === null ? state.keys : [...state.keys, key]
  return [{ ...state, current: successor, spent, keys, key, isProof }]
}

function repeat(state: State, successor: string | null): State[] {
  if (successor === null) return []
  return state.current === successor || state.current === UNKNOWN ? [{ ...state, current: successor }] : []
}

/** Without a key, only requests at the same time share a successor: the second of two that do not overlap. */
export function findSharedLater<S extends Step<SessionPart>>(steps: readonly S[]): S | null {
  const refreshes = steps.filter(
    ({ part, outcome }) => part.act === 'refresh' && !part.key && outcome !== 'refused',
  )
  const isShared = (one: S, other: S) =>
    one.part.act === 'refresh' &&
    other.part.act === 'refresh' &&
    one.part.token === other.part.token &&
    one.outcome === 'ok' &&
    one.end < other.begin
  return (
    refreshes.find((other) => other.outcome === 'ok' && refreshes.some((one) => isShared(one, other))) ?? null
  )
}
