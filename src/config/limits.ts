/** Every limit of the service. LIMIT_<NAME>=<max>/<seconds> changes one: LIMIT_REFRESH=30/60. */

/** `max` uses per window. The first use starts the window. */
export interface Limit {
  name: string
  max: number
  windowSeconds: number
}

const limit = (name: string, max: number, windowSeconds: number): Limit => ({ name, max, windowSeconds })

const DEFAULTS = {
  // Counted in Postgres, for all instances together (limits/counters.ts).
  signInFailures: limit('sign-in-failures', 10, 900),
  accountFailures: limit('account-failures', 50, 900),
  signInAttempts: limit('sign-in-attempts', 30, 60),
  regenerate: limit('regenerate', 5, 3600),
  register: limit('register', 5, 3600),
  passwordChecks: limit('password-checks', 10, 60),
  mail: limit('mail', 3, 3600),
  mailRequests: limit('mail-requests', 120, 3600),
  mailToAddress: limit('mail-to-address', 12, 3600),
  secondFactorCodes: limit('second-factor-codes', 10, 900),
  mailboxCodes: limit('mailbox-codes', 3, 3600),
  passwordChanges: limit('password-changes', 10, 3600),
  memberChanges: limit('member-changes', 1000, 3600),
  invitations: limit('invitations', 50, 3600),
  handleChanges: limit('handle-changes', 5, 86_400),
  servicePasswords: limit('service-passwords', 20, 3600),
  serviceSignIns: limit('service-sign-ins', 1200, 60),
  trialSignIns: limit('trial-sign-ins', 2000, 3600),
  oneTimeTokens: limit('one-time-tokens', 10, 60),
  reauthentications: limit('reauthentications', 30, 60),
  wrongReauthentications: limit('wrong-reauthentications', 10, 900),

  // Counted by the statement that stores events (ingest/repository.ts).
  trialBytes: limit('trial-bytes', 256 * 2 ** 20, 86_400),

  // Counted in the session's row (session/rotation-repository.ts).
  refresh: limit('refresh', 30, 60),

  // Concurrent reads per process, and how long others wait (limits/company-admission.ts).
  auditReads: limit('audit-reads', 2, 1),

  // Counted in the memory of each process (limits/memory.ts).
  ingest: limit('ingest', 1000, 1),
  badSignatures: limit('bad-signatures', 60, 60),
  signatureChecks: limit('signature-checks', 20, 1),
  servicePasswordChecks: limit('service-password-checks', 20, 1),
  refusals: limit('refusals', 120, 60),
  anonymous: limit('anonymous', 600, 60),
  session: limit('session', 6000, 60),
}

export type Limits = typeof DEFAULTS

/** What each limit counts, for OpenAPI and .env.example. */
export const COUNTED: Record<keyof Limits, string> = {
  signInFailures: 'wrong passwords, by company, e-mail and network',
  accountFailures:
    'wrong passwords, by company and e-mail; beyond it, only known networks and browsers sign in',
  signInAttempts: 'sign-ins, by network; those by a service password are not counted',
  regenerate: 'new signing secrets, by company',
  register: 'registrations, by network',
  passwordChecks: 'passwords of registrations, refused ones too, by network',
  mail: 'requested mails, by company, e-mail and network; further ones are answered alike and not sent',
  mailRequests: 'requested mails, by network; further ones are answered alike and not sent',
  mailToAddress: 'mails to an e-mail that others can cause; further ones are sent later',
  secondFactorCodes: 'codes of second factors, by user; right ones are given back, passkeys are not counted',
  mailboxCodes: 'mailed codes that prove a mailbox, by user',
  passwordChanges: 'changes of a password or an e-mail, by user and network',
  memberChanges: 'changes of members and invitations, and of the own name, by user',
  invitations: 'invitations, those that are sent again included, by company',
  handleChanges: 'other handles, refused ones too, by company',
  servicePasswords: 'passwords of service members, by company',
  serviceSignIns: 'sign-ins with a correct service password, by service account',
  trialSignIns: 'sign-ins with a correct service password, by company on a trial',
  oneTimeTokens: 'tries of mailed tokens, by network',
  reauthentications: 'passwords that are given again, by session',
  wrongReauthentications:
    'wrong passwords, codes, and passkeys of re-authentications, by session; the last one ends it',
  trialBytes: 'bytes of events, by company on a trial and day (UTC)',
  refresh: 'refreshes, by session',
  auditReads:
    'reads of the audit trail at the same time in a process, by company; four times as many wait for up to this time',
  ingest: 'signed requests, by company',
  badSignatures: 'requests whose signature does not hold, by network',
  signatureChecks:
    'signatures that are verified beyond that, by company and network, where one held within a day; right ones are given back',
  servicePasswordChecks:
    'service passwords that are looked up beyond `refusals`, by company and network, where one held within a day; right ones are given back',
  refusals: 'requests that are refused for their credential, by network',
  anonymous: 'other requests without a credential, by network',
  session: 'requests with a session, by session',
}

export const LIMIT_VARIABLES = Object.values(DEFAULTS).map(variableOf)

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
  for (const name of unknown) faults.push(`${name}: is no limit; there are ${LIMIT_VARIABLES.join(', ')}`)
  return limits
}

const MAX_FACTOR = 100
const MAX_WINDOW_SECONDS = 86_400

export function excessiveLimits(limits: Limits): string[] {
  return Object.values(limits).flatMap((one) => {
    const { max, windowSeconds } = Object.values(DEFAULTS).find(({ name }) => name === one.name) ?? one
    const most = max * MAX_FACTOR
    const isTooFast = one.max / one.windowSeconds > most / windowSeconds
    if (!isTooFast && one.max <= most && one.windowSeconds <= MAX_WINDOW_SECONDS) return []
    return [
      `${variableOf(one)}: must allow at most ${MAX_FACTOR} times the default of ${max}/${windowSeconds}, ` +
        `within at most ${MAX_WINDOW_SECONDS} seconds, in production`,
    ]
  })
}

function variableOf({ name }: Limit): string {
  return `LIMIT_${name.toUpperCase().replaceAll('-', '_')}`
}

export function scaleLimits(limits: Limits, scale: number): Limits {
  const scaled = structuredClone(limits)
  for (const one of Object.values(scaled)) one.max = Math.ceil(one.max * scale)
  return scaled
}
