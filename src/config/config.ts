import { availableParallelism } from 'node:os'
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { isServiceLink, misspelledNames, readSecretFiles } from './files.ts'
import { FORMS, isBelow, list, mailDomainOf, originOf, toMasterKey, toSender, WITHOUT_TLS } from './forms.ts'
import { excessiveLimits, LIMIT_VARIABLES, type Limits, readLimits, scaleLimits } from './limits.ts'
import { productionFaults, REQUIRED } from './production.ts'

export type { MasterKey } from './forms.ts'

/** Reads and checks the whole configuration before anything else starts. */

const seconds = (fallback: number, minimum = 1) =>
  Type.Integer({ minimum, maximum: 10 * 365 * 86_400, default: fallback })
const quota = (fallback: number) => Type.Integer({ minimum: 1, maximum: 1_000_000, default: fallback })
const port = (fallback: number) => Type.Integer({ minimum: 0, maximum: 65_535, default: fallback })
const oneOf = (words: string[], fallback: string) =>
  Type.Union(
    words.map((word) => Type.Literal(word)),
    { default: fallback, must: `be one of ${words.join(', ')}` },
  )
const text = () => Type.Optional(Type.String())

/** One property per variable. `default` applies if it is unset or empty. */
const Environment = Type.Object({
  NODE_ENV: oneOf(['development', 'test', 'production'], 'development'),
  DATABASE_URL: text(),
  DATABASE_URL_FILE: text(),
  MASTER_KEYS: text(),
  MASTER_KEYS_FILE: text(),
  PUBLIC_URL: text(),
  PAGES_URL: text(),
  PASSKEY_RP_ID: text(),
  CELL: text(),
  HOST: Type.String({ default: '127.0.0.1' }),
  PORT: port(3000),
  OPS_HOST: Type.String({ default: '127.0.0.1' }),
  OPS_PORT: port(3001),
  PLATFORM_HOST: Type.String({ default: '127.0.0.1' }),
  PLATFORM_PORT: port(3002),
  DATA_DIR: Type.String({ default: '.data' }),
  ACCESS_TOKEN_TTL_SECONDS: seconds(900),
  REFRESH_TOKEN_TTL_SECONDS: seconds(604_800),
  SESSION_MAX_AGE_SECONDS: seconds(2_592_000),
  COOKIE_IDLE_SECONDS: seconds(43_200),
  COOKIE_MAX_AGE_SECONDS: seconds(604_800),
  // The database enforces 90 days (migrations/0007-audit-trail.ts).
  AUDIT_RETENTION_DAYS: Type.Integer({ minimum: 90, maximum: 3_650, default: 400 }),
  EVENT_RETENTION_DAYS: Type.Optional(Type.Integer({ minimum: 1, maximum: 36_500 })),
  MAX_SESSIONS_PER_MEMBER: Type.Integer({ minimum: 1, maximum: 10_000, default: 200 }),
  MAX_MEMBERS: quota(10_000),
  MAX_MEMBERS_IN_TRIAL: quota(500),
  MAX_INVITATIONS_IN_TRIAL: quota(20),
  SIGNATURE_TOLERANCE_SECONDS: seconds(300),
  IDEMPOTENCY_WINDOW_SECONDS: seconds(300, 0),
  REFRESH_RACE_SECONDS: seconds(1, 0),
  REFRESH_GRACE_SECONDS: seconds(0, 0),
  SMTP_URL: text(),
  SMTP_URL_FILE: text(),
  SMTP_NAME: text(),
  MAIL_FROM: text(),
  ALLOW_PLAINTEXT: text(),
  DASHBOARD_ORIGINS: text(),
  TRUST_PROXY: text(),
  BREACHED_PASSWORDS_URL: text(),
  DRAIN_DELAY_SECONDS: Type.Optional(Type.Integer({ minimum: 0, maximum: 600 })),
  WORKERS: Type.Optional(Type.Integer({ minimum: 1, maximum: 256 })),
  DATABASE_POOL_SIZE: Type.Integer({ minimum: 2, maximum: 1000, default: 10 }),
  LOG_LEVEL: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], 'info'),
  RATE_LIMIT_SCALE: Type.Number({ exclusiveMinimum: 0, maximum: 1e6, default: 1 }),
  // libuv's variable and default. scripts/start sets it.
  UV_THREADPOOL_SIZE: Type.Integer({ minimum: 1, maximum: 1024, default: 4 }),
})
type Variables = Static<typeof Environment>
export const VARIABLES = Object.keys(Environment.properties)

export type Config = ReturnType<typeof loadConfig>

export class ConfigError extends Error {
  override name = 'ConfigError'
}

/** @throws ConfigError that lists all faults, including those in `found`, and never contains a secret */
export function loadConfig(
  env: Record<string, string | undefined>,
  required: readonly string[] = REQUIRED,
  found: readonly string[] = [],
) {
  const links = VARIABLES.filter((name) => isServiceLink(name, env[name]))
  const given = Object.fromEntries(
    Object.entries(Environment.properties).map(([name, schema]) => [
      name,
      readValue(links.includes(name) ? undefined : env[name], schema),
    ]),
  )
  const { secrets, faults: unread } = readSecretFiles(given)
  const values = { ...given, ...secrets }
  const faults = [...found, ...unread, ...faultsOf(values)]
  const limits = readLimits(env, faults)
  const further = misspelledNames(env, [...VARIABLES, ...LIMIT_VARIABLES])
  if (values['NODE_ENV'] === 'production') {
    further.push(
      ...productionFaults({ ...values, PGHOST: env['PGHOST'] }, required),
      ...excessiveLimits(limits),
    )
  }
  const known = new Set(faults.map((fault) => fault.split(':', 1)[0]))
  faults.push(...further.filter((fault) => !known.has(fault.split(':', 1)[0])))
  if (faults.length > 0 || !Value.Check(Environment, values)) {
    throw new ConfigError(`Invalid configuration:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`)
  }
  const notices = links.map(
    (name) => `${name}=${env[name]}: is ignored, because Kubernetes sets it for a service`,
  )
  return toConfig(values, limits, notices)
}

/** Shells and compose files pass unset variables as empty ones. */
function readValue(text: string | undefined, schema: { type?: string; default?: unknown }): unknown {
  if (text === undefined || text === '') return schema.default
  const isNumber = schema.type === 'integer' || schema.type === 'number'
  return isNumber && /^\d{1,12}(\.\d{1,6})?$/.test(text) ? Number(text) : text
}

function faultsOf(values: Record<string, unknown>): string[] {
  const faults = new Map<string, string>()
  for (const { path, schema } of Value.Errors(Environment, values)) {
    const name = path.slice(1)
    if (!faults.has(name)) faults.set(name, `must ${schema['must'] ?? numberForm(schema)}`)
  }
  for (const [name, isValid, must] of FORMS) {
    const value = values[name]
    if (typeof value === 'string' && !faults.has(name) && !isValid(value)) faults.set(name, `must ${must}`)
  }
  const { PUBLIC_URL: publicUrl = 'http://localhost', PASSKEY_RP_ID: rpId } = values
  const areForms = !faults.has('PUBLIC_URL') && !faults.has('PASSKEY_RP_ID')
  if (areForms && typeof publicUrl === 'string' && typeof rpId === 'string' && !isBelow(publicUrl, rpId))
    faults.set(
      'PASSKEY_RP_ID',
      'must be the host of PUBLIC_URL or a domain above it, such as example.com for auth.example.com',
    )
  return [...faults].map(([name, fault]) => `${name}: ${fault}`)
}

function numberForm({ type, minimum, exclusiveMinimum, maximum, default: usual }: TSchema): string {
  const kind = type === 'integer' ? 'whole number' : 'number'
  const least = minimum === undefined ? `above ${exclusiveMinimum} and up to` : `from ${minimum} to`
  return `be a ${kind} ${least} ${maximum}${usual === undefined ? '' : `, such as ${usual}`}`
}

function toConfig(read: Variables, limits: Limits, notices: string[]) {
  const publicUrl = originOf(read.PUBLIC_URL ?? `http://localhost:${read.PORT}`) ?? ''
  const dashboardOrigins = list(read.DASHBOARD_ORIGINS)
  const pagesUrl = originOf(read.PAGES_URL ?? '') ?? publicUrl
  const passkeyRpId = read.PASSKEY_RP_ID ?? new URL(publicUrl).hostname
  return {
    /** If undefined, the embedded Postgres runs. Required in production, like `masterKeys` and `mail.smtpUrl`. */
    databaseUrl: read.DATABASE_URL,
    databasePoolSize: read.DATABASE_POOL_SIZE,
    workers: read.WORKERS ?? (read.NODE_ENV === 'production' ? availableParallelism() : 1),
    /** If empty, the key in the data folder is used. */
    masterKeys: list(read.MASTER_KEYS).map(toMasterKey),
    publicUrl,
    /** The name of this deployment, if companies are divided over several. */
    cell: read.CELL,
    pagesUrl,
    hasPages: pagesUrl === publicUrl,
    listen: { host: read.HOST, port: read.PORT },
    opsListen: { host: read.OPS_HOST, port: read.OPS_PORT },
    platformListen: { host: read.PLATFORM_HOST, port: read.PLATFORM_PORT },
    dataDir: read.DATA_DIR,
    accessTokenTtlSeconds: read.ACCESS_TOKEN_TTL_SECONDS,
    refreshTokenTtlSeconds: read.REFRESH_TOKEN_TTL_SECONDS,
    sessionMaxAgeSeconds: read.SESSION_MAX_AGE_SECONDS,
    cookieIdleSeconds: read.COOKIE_IDLE_SECONDS,
    cookieMaxAgeSeconds: read.COOKIE_MAX_AGE_SECONDS,
    auditRetentionDays: read.AUDIT_RETENTION_DAYS,
    eventRetentionDays: read.EVENT_RETENTION_DAYS,
    maxSessionsPerMember: read.MAX_SESSIONS_PER_MEMBER,
    quotas: {
      members: read.MAX_MEMBERS,
      membersInTrial: read.MAX_MEMBERS_IN_TRIAL,
      invitationsInTrial: read.MAX_INVITATIONS_IN_TRIAL,
    },
    signatureToleranceSeconds: read.SIGNATURE_TOLERANCE_SECONDS,
    idempotencyWindowSeconds: read.IDEMPOTENCY_WINDOW_SECONDS,
    refreshRaceSeconds: read.REFRESH_RACE_SECONDS,
    refreshGraceSeconds: read.REFRESH_GRACE_SECONDS,
    /** Without a URL, emails become files in the data folder. */
    mail: {
      smtpUrl: read.SMTP_URL,
      /** For EHLO. Relays refuse the address of a container. */
      clientName: read.SMTP_NAME ?? mailDomainOf(publicUrl),
      // Without TLS, an eavesdropper could read emailed links.
      requireTls: read.NODE_ENV === 'production' && !read.SMTP_URL?.endsWith(WITHOUT_TLS),
      from: toSender(read.MAIL_FROM ?? `gatehouse <no-reply@${mailDomainOf(publicUrl)}>`),
    },
    dashboardOrigins,
    /** WebAuthn, section 5.1.2. */
    passkeys: {
      rpId: passkeyRpId,
      origins: [publicUrl, ...dashboardOrigins.filter((origin) => isBelow(origin, passkeyRpId))],
    },
    trustProxy: list(read.TRUST_PROXY),
    /** After a signal, requests are still accepted for this long, so that load balancers notice. */
    drainDelaySeconds: read.DRAIN_DELAY_SECONDS ?? (read.NODE_ENV === 'production' ? 5 : 0),
    breachedPasswordsUrl: read.BREACHED_PASSWORDS_URL,
    logLevel: read.LOG_LEVEL,
    warnings: [...notices, ...warningsOf(read)],
    rateLimitScale: read.RATE_LIMIT_SCALE,
    limits: scaleLimits(limits, read.RATE_LIMIT_SCALE),
    /** libuv threads. Hashing leaves one free for DNS and files. */
    threads: read.UV_THREADPOOL_SIZE,
  }
}

function warningsOf(read: Variables): string[] {
  if (read.NODE_ENV === 'production') {
    const words = list(read.ALLOW_PLAINTEXT)
    return words.map((word) => `ALLOW_PLAINTEXT names ${word}: TLS is not required for its connections`)
  }
  const scale = read.RATE_LIMIT_SCALE
  return [
    ...(['HOST', 'OPS_HOST', 'PLATFORM_HOST'] as const)
      .filter((name) => /^(?:0\.0\.0\.0|::|\[::\]|\*)$/.test(read[name]))
      .map(
        (name) =>
          `${name}=${read[name]}: the network can reach this listener, but NODE_ENV is not production`,
      ),
    ...(scale === 1 ? [] : [`RATE_LIMIT_SCALE=${scale}: limits differ from production`]),
  ]
}
