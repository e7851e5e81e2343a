/** The service is away: its own 503, and what a proxy answers that has lost it. */
export const AWAY = [502, 503, 504]

/**
 * - ok: acknowledged
 * - refused: answered, and not done, for a reason that `code` has
 * - unknown: one of these, or no answer. It may have happened at any time from its begin on, or never
 */
export type Outcome = 'ok' | 'refused' | 'unknown'

/** When an operation was, in milliseconds of a clock that never steps back, and how it ended. */
export interface Seen {
  begin: number
  /** Of an unknown one, when its client stopped waiting. */
  end: number
  outcome: Outcome
  /** Of a problem, such as `session_ended`, or of the error of a connection; empty if it is ok. */
  code: string
}
