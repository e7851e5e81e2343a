import type { EventPart, SecretPart, TokenPart } from './rules.ts'
import type { Seen } from './search.ts'
import type { SessionPart, SessionsPart } from './session.ts'

/** What clients saw. */
export interface Observed {
  history: readonly Operation[]
  /** The ids of events, in the order in which the feed returned them. */
  feed: readonly string[]
  /** The same, when all was read once more at the end. */
  feedAtLast: readonly string[]
}

/** What no legal order explains, with the history of its subject. */
export interface Violation {
  what: string
  operations: Operation[]
}

/** The service is away: its own 503, and what a proxy returns that has lost it. */
export const AWAY = [502, 503, 504]

export interface Operation extends Seen {
  client: string
  /** Such as `POST /auth/refresh`. */
  what: string
  /** To the service, by its number. */
  way?: number
  /** Of the answer; 0 without one. */
  status: number
  /** Whether the answer was one to a different request. */
  isOther?: boolean
  /** What it means for each subject that it concerns. */
  parts: Part[]
}

export type Part = SessionPart | SessionsPart | EventPart | SecretPart | TokenPart

/** One line, such as `12.034–12.080 s  person-3  POST /auth/refresh: refused session_ended`. */
export function toText({ begin, end, client, what, outcome, code }: Operation): string {
  const [from, to] = [begin, end].map((at) => (at / 1000).toFixed(3))
  return `${from}–${to} s  ${client}  ${what}: ${outcome} ${code}`.trimEnd()
}
