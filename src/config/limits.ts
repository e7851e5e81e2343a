/** All limits. LIMIT_<NAME>=<max>/<seconds> changes one, such as LIMIT_REFRESH=30/60. */

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
  auditFeed: limit('audit-feed', 600, 60),
  clientIps: limit('client-ips', 600, 60),
}

export type Limits = typeof DEFAULTS

/** The uses that each limit counts, for OpenAPI and .env.example. */
export const COUNTED: Record<keyof Limits, string> = {
  signInFailures: 'wrong passwords, by company, email, and network',
  accountFailures:
    'wrong passwords, by company and email; above it, only known networks and browsers can sign in',
  signInAttempts: 'sign-ins, by network; those with a service password do not count',
  regenerate: 'new signing secrets, by company',
  register: 'registrations, by network',
  passwordChecks: 'passwords of registrations, including rejected ones, by network',
  mail: 'requested emails, by company, email, and network; above it, the response is the same but nothing is sent',
  mailRequests: 'requested emails, by network; above it, the response is the same but nothing is sent',
  mailToAddress:
    'emails to an address that strangers can trigger, shared between their networks; the rest are sent later',
  secondFactorCodes: 'second-factor codes, by user; correct ones are refunded, passkeys do not count',
  mailboxCodes: 'emailed codes that confirm a mailbox, by user',
  passwordChanges: 'changes of a password or an email, by user and network',
  memberChanges: "changes of members, invitations, and one's own name, by user",
  invitations: 'invitations, including those sent again, by company',
  handleChanges: 'new handles, including rejected ones, by company',
  servicePasswords: 'new passwords of service accounts, by company',
  serviceSignIns: 'sign-ins with a correct service password, by service account',
  trialSignIns: 'sign-ins with a correct service password, by company on a trial',
  oneTimeTokens: 'attempts to use an emailed token, by network',
  reauthentications: 're-authentications by password, by session',
  wrongReauthentications:
    'wrong passwords, codes, and passkeys in re-authentications, by session; the last one ends it',
  trialBytes: 'bytes of events, by company on a trial and UTC day',
  refresh: 'refreshes, by session',
  auditReads:
    'reads of the audit trail, or of received events, at the same time in a process, by company; four times as many wait up to a second',
  ingest: 'signed requests, by company',
  badSignatures: 'requests with an invalid signature, by network',
  signatureChecks:
    'further signature checks for senders with a valid signature in the last day, by company and network; valid ones do not count',
  servicePasswordChecks:
    'further service password checks for networks with a correct one in the last day, by company; correct ones do not count',
  refusals: 'requests with a refused credential, by network',
  anonymous: 'other requests without a credential, by network',
  session: 'requests with a session, by session',
  auditFeed: 'requests of the audit feed, by session or service account',
  clientIps: 'requests with `Gatehouse-Client-Ip`, by service account',
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
  for (const name of unknown)
    faults.push(`${name}: is not a limit. The limits are ${LIMIT_VARIABLES.join(', ')}`)
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
      `${variableOf(one)}: must be at most ${MAX_FACTOR} times the default, in a window of at most ` +
        `${MAX_WINDOW_SECONDS} seconds, in production, such as ${max}/${windowSeconds}`,
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
