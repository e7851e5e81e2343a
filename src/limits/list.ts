/** Every limit of the service, each configurable as LIMIT_<NAME>=<max>/<seconds>, such as LIMIT_REFRESH=30/60. */

/** At most `max` in a window of `windowSeconds`, which starts with the first that is counted. */
export interface Limit {
  name: string
  max: number
  windowSeconds: number
}

/** Where a client stands with a limit. */
export interface LimitState extends Limit {
  remaining: number
  resetSeconds: number
}

const limit = (name: string, max: number, windowSeconds: number): Limit => ({ name, max, windowSeconds })

const DEFAULTS = {
  // Counted in Postgres, so that they hold across instances: see counters.ts.
  /** Wrong passwords, by company, e-mail and network together. */
  signInFailures: limit('sign-in-failures', 10, 900),
  /** Sign-ins, by network. */
  signInAttempts: limit('sign-in-attempts', 30, 60),
  /** New signing secrets, by company. */
  regenerate: limit('regenerate', 5, 3600),
  /** New companies, by network. */
  register: limit('register', 5, 3600),
  /** Requested mails, by kind, company and e-mail; and all mail to an e-mail that nobody has verified. */
  mail: limit('mail', 3, 3600),
  /** Attempts to change a password, by user and network. */
  passwordChanges: limit('password-changes', 10, 3600),
  /** One-time tokens that are tried, by network. */
  oneTimeTokens: limit('one-time-tokens', 10, 60),

  // Counted in the session's own row: see session/rotation-repository.ts.
  /** Refreshes, by session. */
  refresh: limit('refresh', 30, 60),

  // Counted by each instance in its memory: see memory.ts.
  /** Signed requests, by company. */
  ingest: limit('ingest', 1000, 1),
  /** Requests whose signature did not hold, by network. */
  badSignatures: limit('bad-signatures', 60, 60),
  /** Requests that were refused for their credential, by network. */
  refusals: limit('refusals', 120, 60),
  /** Other requests without a credential, by network. */
  anonymous: limit('anonymous', 600, 60),
  /** Requests, by session. */
  session: limit('session', 6000, 60),
}

export type Limits = typeof DEFAULTS

/** The limits of an environment; what is wrong with a variable is added to `faults`. */
export function readLimits(env: Record<string, string | undefined>, faults: string[]): Limits {
  const limits = structuredClone(DEFAULTS)
  const unknown = new Set(Object.keys(env).filter((name) => name.startsWith('LIMIT_')))
  for (const one of Object.values(limits)) {
    const variable = variableOf(one)
    unknown.delete(variable)
    const text = env[variable]
    if (!text) continue
    const [, max, seconds] = /^([1-9]\d{0,8})\/([1-9]\d{0,6})$/.exec(text) ?? []
    if (max) Object.assign(one, { max: Number(max), windowSeconds: Number(seconds) })
    else faults.push(`${variable}: must be <max>/<seconds>, such as ${one.max}/${one.windowSeconds}`)
  }
  const known = Object.values(limits).map(variableOf).join(', ')
  for (const name of unknown) faults.push(`${name}: is no limit; there are ${known}`)
  return limits
}

function variableOf({ name }: Limit): string {
  return `LIMIT_${name.toUpperCase().replaceAll('-', '_')}`
}

/** The same limits, each `scale` times as high and at least one. */
export function scaleLimits(limits: Limits, scale: number): Limits {
  const scaled = structuredClone(limits)
  for (const one of Object.values(scaled)) one.max = Math.ceil(one.max * scale)
  return scaled
}
