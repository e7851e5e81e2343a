import { isLoopback, isPrivateDatabase, list, toMasterKey, WITHOUT_TLS } from './forms.ts'

/** Production refuses settings that turn off a protection or make no sense. */

const EXAMPLES: Record<string, string> = {
  DATABASE_URL: 'postgres://user:password@host/name?sslmode=verify-full',
  MASTER_KEYS: 'k1:KEY, where KEY is the output of `openssl rand -base64 32`',
  PUBLIC_URL: 'https://auth.example.com',
  SMTP_URL: 'smtp://user:password@host:587',
}
export const REQUIRED = Object.keys(EXAMPLES)

const HOUR = 3_600
const DAY = 86_400

/** In seconds. Outside these ranges, a stolen credential stays valid for too long, or no client works. */
const RANGES: Record<string, readonly [min: number, max: number]> = {
  ACCESS_TOKEN_TTL_SECONDS: [30, DAY],
  REFRESH_TOKEN_TTL_SECONDS: [60, 90 * DAY],
  SESSION_MAX_AGE_SECONDS: [60, 366 * DAY],
  COOKIE_IDLE_SECONDS: [60, 90 * DAY],
  COOKIE_MAX_AGE_SECONDS: [60, 366 * DAY],
  SIGNATURE_TOLERANCE_SECONDS: [10, 900],
  IDEMPOTENCY_WINDOW_SECONDS: [0, HOUR],
  REFRESH_RACE_SECONDS: [0, 10],
  REFRESH_GRACE_SECONDS: [0, 60],
}

const ORDERS: readonly (readonly [shorter: string, longer: string])[] = [
  ['ACCESS_TOKEN_TTL_SECONDS', 'REFRESH_TOKEN_TTL_SECONDS'],
  ['REFRESH_TOKEN_TTL_SECONDS', 'SESSION_MAX_AGE_SECONDS'],
  ['COOKIE_IDLE_SECONDS', 'COOKIE_MAX_AGE_SECONDS'],
]

type Values = Record<string, unknown>

export function productionFaults(values: Values, required: readonly string[]): string[] {
  const missing = required.filter((name) => !values[name])
  const faults = missing.map((name) => `${name}: must be set in production, such as ${EXAMPLES[name]}`)
  if (values['RATE_LIMIT_SCALE'] !== 1) faults.push('RATE_LIMIT_SCALE: must be 1 in production')
  const isOpen = (origin: string) => /^http:/i.test(origin) && !isLoopback(origin)
  for (const name of ['PUBLIC_URL', 'PAGES_URL', 'DASHBOARD_ORIGINS', 'BREACHED_PASSWORDS_URL'])
    if (list(textOf(values, name)).some(isOpen))
      faults.push(`${name}: must begin with https:// in production, such as https://auth.example.com`)
  if (list(textOf(values, 'MASTER_KEYS')).some((entry) => !looksRandom(toMasterKey(entry).key)))
    faults.push('MASTER_KEYS: must be random in production, such as the output of `openssl rand -base64 32`')
  return [...faults, ...plaintextFaults(values), ...durationFaults(values)]
}

/** Credentials and emailed links cross these connections (ASVS 12.3.1). */
function plaintextFaults(values: Values): string[] {
  const allowed = list(textOf(values, 'ALLOW_PLAINTEXT'))
  const unless = (word: string) =>
    `in production, unless the host is this machine or ALLOW_PLAINTEXT names ${word}`
  const faults: string[] = []
  const database = textOf(values, 'DATABASE_URL')
  const isPrivate = database === '' || isPrivateDatabase(database, textOf(values, 'PGHOST') || 'localhost')
  if (!isPrivate && !allowed.includes('database'))
    faults.push(`DATABASE_URL: must have sslmode=verify-full or sslmode=verify-ca ${unless('database')}`)
  const mail = textOf(values, 'SMTP_URL')
  if (mail.endsWith(WITHOUT_TLS) && !isLoopback(mail) && !allowed.includes('smtp'))
    faults.push(`SMTP_URL: must not have requireTLS=false ${unless('smtp')}`)
  return faults
}

function durationFaults(values: Values): string[] {
  const faults: string[] = []
  for (const [name, [min, max]] of Object.entries(RANGES)) {
    const seconds = Number(values[name])
    if (seconds < min || seconds > max) faults.push(`${name}: must be from ${min} to ${max} in production`)
  }
  for (const [shorter, longer] of ORDERS) {
    if (Number(values[shorter]) > Number(values[longer]))
      faults.push(`${shorter}: must be at most ${longer} in production`)
  }
  return faults
}

function textOf(values: Values, name: string): string {
  const value = values[name]
  return typeof value === 'string' ? value : ''
}

/** Rejects repeated patterns, sequences such as 0, 1, 2 …, and text. Fewer than one in 10^8 random keys fail. */
function looksRandom(key: Buffer): boolean {
  const bytes = [...key]
  const steps = bytes.slice(1).map((byte, index) => (byte - (bytes[index] ?? 0)) & 0xff)
  const isText = bytes.every((byte) => byte >= 0x20 && byte < 0x7f)
  return new Set(bytes).size > 17 && new Set(steps).size > 17 && !isText
}
