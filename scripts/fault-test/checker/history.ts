import type { EventPart } from './event.ts'
import type { SecretPart } from './secret.ts'
import type { Seen } from './seen.ts'
import type { SessionPart, SessionsPart } from './session.ts'
import type { TokenPart } from './token.ts'

/** What clients saw: one record for each operation. */

export interface Operation extends Seen {
  client: string
  /** Such as `POST /auth/refresh`. */
  what: string
  /** Of the answer; 0 without one. */
  status: number
  /** Whose data were asked for, and whose came. */
  asked?: string
  answered?: string
  /** What it means for each subject that it concerns. */
  parts: Part[]
}

export type Part = SessionPart | SessionsPart | EventPart | SecretPart | TokenPart
