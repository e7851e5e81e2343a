/** What honest users do, and how often in a second. */
export const RATES = {
  /** From a network where the member signed in before. */
  'sign-in, known network': 4,
  /** From a new network, with the cookie of a device on which the member signed in before. */
  'sign-in, known device': 2,
  /** From a new network, without a cookie. */
  'sign-in, new network': 2,
  'session check': 50,
  refresh: 10,
  'signed event': 20,
}

export type Kind = keyof typeof RATES

export const SIGN_INS = [
  'sign-in, known network',
  'sign-in, known device',
  'sign-in, new network',
] as const satisfies Kind[]

/** What honest users of one kind saw. */
export interface Seen {
  kind: Kind
  sent: number
  succeeded: number
  /** Share of those sent; null if nothing was sent. */
  share: number | null
  /** Milliseconds, of those that succeeded. */
  p50: number
  p99: number
  /** Number of failures by code. */
  errors: Record<string, number>
}
