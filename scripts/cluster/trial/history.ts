/** What clients saw: which acknowledged change was when, and what else they were answered. */
export interface History {
  /** When a change was acknowledged, by `performance.now()`. */
  acknowledgedAt: number[]
  /** Attempts that were answered with a fault of availability, or not at all. Each was tried again. */
  failedAttempts: { at: number; what: string }[]
  attempts: number
  /** What must not happen. */
  violations: string[]
  events: string[]
  /** Sessions whose end was acknowledged: their tokens must be refused. */
  ended: Session[]
}

export interface Session {
  id: string
  accessToken: string
  refreshToken: string
}

export function newHistory(): History {
  return { acknowledgedAt: [], failedAttempts: [], attempts: 0, violations: [], events: [], ended: [] }
}

/** The longest time in seconds in which no change was acknowledged, between two moments. */
export function longestGap({ acknowledgedAt }: History, from: number, to: number): number {
  const within = acknowledgedAt.filter((at) => at >= from && at <= to)
  const moments = [from, ...within, to]
  const gaps = moments.slice(1).map((at, index) => at - (moments[index] ?? from))
  return Math.max(...gaps) / 1000
}
