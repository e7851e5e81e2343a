import type { EventPart, SecretPart, TokenPart } from './rules.ts'
import type { Seen } from './search.ts'
import type { SessionPart, SessionsPart } from './session.ts'

export interface Observed {
  history: readonly Operation[]
  /** Ids of events in the order of the feed. */
  feed: readonly string[]
  /** The same, read again at the end. */
  feedAtLast: readonly string[]
}

export interface Violation {
  what: string
  operations: Operation[]
}

/** From the service or, without it, from a proxy. */
export const AWAY = [502, 503, 504]

export interface Operation extends Seen {
  client: string
  what: string
  /** The number of the URL. */
  way?: number
  /** 0 without a response. */
  status: number
  isOther?: boolean
  parts: Part[]
}

export type Part = SessionPart | SessionsPart | EventPart | SecretPart | TokenPart

/** One line, such as `12.034–12.080 s  person-3  POST /auth/refresh: refused session_ended`. */
export function toText({ begin, end, client, what, outcome, code }: Operation): string {
  const [from, to] = [begin, end].map((at) => (at / 1000).toFixed(3))
  return `${from}–${to} s  ${client}  ${what}: ${outcome} ${code}`.trimEnd()
}
