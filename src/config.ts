import { isIP } from 'node:net'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { readLimits, scaleLimits } from './limits/list.ts'

/** Reads and checks the whole configuration from the environment, before anything else starts. */

const seconds = (fallback: number, minimum = 1) =>
  Type.Integer({ minimum, maximum: 10 * 365 * 86_400, default: fallback })
const port = (fallback: number) => Type.Integer({ minimum: 0, maximum: 65_535, default: fallback })
const oneOf = (words: string[], fallback: string) =>
  Type.Union(
    words.map((word) => Type.Literal(word)),
    { default: fallback, must: `be one of ${words.join(', ')}` },
  )
/** An optional text. `FORMS` checks its form. */
const text = () => Type.Optional(Type.String())

/** One property per variable. `default` is the value of a variable that is unset or empty. */
const Environment = Type.Object({
  NODE_ENV: oneOf(['development', 'test', 'production'], 'development'),
  DATABASE_URL: text(),
  MASTER_KEYS: text(),
  PUBLIC_URL: text(),
  HOST: Type.String({ default: '127.0.0.1' }),
  PORT: port(3000),
  OPS_HOST: Type.String({ default: '127.0.0.1' }),
  OPS_PORT: port(3001),
  DATA_DIR: Type.String({ default: '.data' }),
  ACCESS_TOKEN_TTL_SECONDS: seconds(900),
  REFRESH_TOKEN_TTL_SECONDS: seconds(604_800),
  SESSION_MAX_AGE_SECONDS: seconds(2_592_000),
  COOKIE_IDLE_SECONDS: seconds(43_200),
  COOKIE_MAX_AGE_SECONDS: seconds(604_800),
  // The database keeps the trail for at least 90 days: see migrations/0007-audit-trail.ts.
  AUDIT_RETENTION_DAYS: Type.Integer({ minimum: 90, maximum: 3_650, default: 400 }),
  SIGNATURE_TOLERANCE_SECONDS: seconds(300),
  IDEMPOTENCY_WINDOW_SECONDS: seconds(60, 0),
  REFRESH_RACE_SECONDS: seconds(1, 0),
  REFRESH_GRACE_SECONDS: seconds(0, 0),
  SMTP_URL: text(),
  MAIL_FROM: text(),
  DASHBOARD_ORIGINS: text(),
  TRUST_PROXY: text(),
  DRAIN_DELAY_SECONDS: Type.Optional(Type.Integer({ minimum: 0, maximum: 600 })),
  DATABASE_POOL_SIZE: Type.Integer({ minimum: 2, maximum: 1000, default: 10 }),
  LOG_LEVEL: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], 'info'),
  RATE_LIMIT_SCALE: Type.Number({ exclusiveMinimum: 0, maximum: 1e6, default: 1 }),
  // The variable and this default are libuv's. scripts/start sets it.
  UV_THREADPOOL_SIZE: Type.Integer({ minimum: 1, maximum: 1024, default: 4 }),
})
type Variables = Static<typeof Environment>
export const VARIABLES = Object.keys(Environment.properties)

/** For each text variable: its check, and the message if the check fails. */
const FORMS: Partial<Record<keyof Variables, [isValid: (text: string) => boolean, must: string]>> = {
  DATABASE_URL: [
    (url) => /^postgres(ql)?:\/\//.test(url),
    'be a URL such as postgres://user:password@host/name',
  ],
  MASTER_KEYS: [
    (keys) => list(keys).every((key) => MASTER_KEY.test(key)) && areDistinct(list(keys).map(idOf)),
    'be a list of id:key with different ids, where key is the base64 of 32 random bytes',
  ],
  PUBLIC_URL: [
    (url) => originOf(url) !== null,
    'be an http(s) URL without a path, such as https://auth.example.com',
  ],
  SMTP_URL: [
    isSmtpUrl,
    'be smtp://user:password@host:port or smtps://…, with nothing behind it but ?requireTLS=false',
  ],
  MAIL_FROM: [
    (sender) => SENDER.test(sender),
    'be an address such as no-reply@example.com, or Name <address>',
  ],
  DASHBOARD_ORIGINS: [
    (origins) => list(origins).every((origin) => originOf(origin) === origin),
    'be a list of origins such as https://app.example.com',
  ],
  TRUST_PROXY: [
    (networks) => list(networks).every(isCidr),
    'be a list of IP addresses or CIDRs such as 10.0.0.0/8',
  ],
}

/** A 256-bit key and its id. The first key of a list seals and signs; all keys open and verify. */
export interface MasterKey {
  id: string
  key: Buffer
}

export type Config = ReturnType<typeof toConfig>

/** All faults of the environment in one message. Each line names its variable. */
export class ConfigError extends Error {
  override name = 'ConfigError'
}

/**
 * Reads the configuration from an environment. Pure.
 * @throws ConfigError that names every fault and never contains the value of a secret
 */
export function loadConfig(env: Record<string, string | undefined>) {
  const values = Object.fromEntries(
    Object.entries(Environment.properties).map(([name, schema]) => [name, readValue(env[name], schema)]),
  )
  const faults = faultsOf(values)
  const limits = readLimits(env, faults)
  if (values['NODE_ENV'] === 'production') {
    for (const name of ['DATABASE_URL', 'MASTER_KEYS', 'PUBLIC_URL', 'SMTP_URL']) {
      if (!env[name]) faults.push(`${name}: must be set in production`)
    }
    if (values['RATE_LIMIT_SCALE'] !== 1) faults.push('RATE_LIMIT_SCALE: must be 1 in production')
  }
  if (faults.length > 0 || !Value.Check(Environment, values)) {
    throw new ConfigError(
      `The configuration has faults:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`,
    )
  }
  return toConfig(values, limits)
}

/** The value of a variable, or its default. Shells and compose files set an unset variable to empty. */
function readValue(text: string | undefined, schema: { type?: string; default?: unknown }): unknown {
  if (text === undefined || text === '') return schema.default
  const isNumber = schema.type === 'integer' || schema.type === 'number'
  return isNumber && /^\d{1,12}(\.\d{1,6})?$/.test(text) ? Number(text) : text
}

function faultsOf(values: Record<string, unknown>): string[] {
  const faults = new Map<string, string>()
  for (const { path, message, schema } of Value.Errors(Environment, values)) {
    const name = path.slice(1)
    if (!faults.has(name)) faults.set(name, schema['must'] ? `must ${schema['must']}` : message.toLowerCase())
  }
  for (const [name, [isValid, must]] of Object.entries(FORMS)) {
    const value = values[name]
    if (typeof value === 'string' && !isValid(value)) faults.set(name, `must ${must}`)
  }
  return [...faults].map(([name, fault]) => `${name}: ${fault}`)
}

function toConfig(read: Variables, limits: ReturnType<typeof readLimits>) {
  const publicUrl = originOf(read.PUBLIC_URL ?? `http://127.0.0.1:${read.PORT}`) ?? ''
  return {
    /** Undefined means the embedded Postgres; only outside production. */
    databaseUrl: read.DATABASE_URL,
    databasePoolSize: read.DATABASE_POOL_SIZE,
    /** Empty means that one key is created and kept in the data folder; only outside production. */
    masterKeys: list(read.MASTER_KEYS).map(toMasterKey),
    /** Scheme, host and port at which browsers and tenants reach the service; no trailing slash. */
    publicUrl,
    listen: { host: read.HOST, port: read.PORT },
    opsListen: { host: read.OPS_HOST, port: read.OPS_PORT },
    dataDir: read.DATA_DIR,
    accessTokenTtlSeconds: read.ACCESS_TOKEN_TTL_SECONDS,
    refreshTokenTtlSeconds: read.REFRESH_TOKEN_TTL_SECONDS,
    sessionMaxAgeSeconds: read.SESSION_MAX_AGE_SECONDS,
    cookieIdleSeconds: read.COOKIE_IDLE_SECONDS,
    cookieMaxAgeSeconds: read.COOKIE_MAX_AGE_SECONDS,
    auditRetentionDays: read.AUDIT_RETENTION_DAYS,
    signatureToleranceSeconds: read.SIGNATURE_TOLERANCE_SECONDS,
    idempotencyWindowSeconds: read.IDEMPOTENCY_WINDOW_SECONDS,
    refreshRaceSeconds: read.REFRESH_RACE_SECONDS,
    refreshGraceSeconds: read.REFRESH_GRACE_SECONDS,
    /** Without a URL, mail is written to files in the data folder; only outside production. */
    mail: {
      smtpUrl: read.SMTP_URL,
      // Without TLS, an eavesdropper could read the links in mails.
      requireTls: read.NODE_ENV === 'production' && !read.SMTP_URL?.endsWith(WITHOUT_TLS),
      from: read.MAIL_FROM ?? `gatehouse <no-reply@${mailDomainOf(publicUrl)}>`,
    },
    dashboardOrigins: list(read.DASHBOARD_ORIGINS),
    trustProxy: list(read.TRUST_PROXY),
    /** How long requests are still taken after the wish to stop, so that a balancer notices first. */
    drainDelaySeconds: read.DRAIN_DELAY_SECONDS ?? (read.NODE_ENV === 'production' ? 5 : 0),
    logLevel: read.LOG_LEVEL,
    rateLimitScale: read.RATE_LIMIT_SCALE,
    limits: scaleLimits(limits, read.RATE_LIMIT_SCALE),
    /** Threads of libuv. Passwords are hashed on all but one, which is left for DNS look-ups and files. */
    threads: read.UV_THREADPOOL_SIZE,
  }
}

const MASTER_KEY = /^([A-Za-z0-9_-]{1,32}):([A-Za-z0-9+/]{43}=)$/

function idOf(masterKey: string): string {
  return masterKey.split(':', 1)[0] ?? ''
}

function toMasterKey(entry: string): MasterKey {
  return { id: idOf(entry), key: Buffer.from(entry.slice(idOf(entry).length + 1), 'base64') }
}

function areDistinct(values: string[]): boolean {
  return new Set(values).size === values.length
}

/** `address` or `Name <address>`, without characters that could begin a header (RFC 5322, section 3.4). */
const SENDER = /^(?:[^\s<>@]+@[^\s<>@]+|[^\p{Cc}<>]*<[^\s<>@]+@[^\s<>@]+>)$/u

const WITHOUT_TLS = '?requireTLS=false'

function isSmtpUrl(text: string): boolean {
  const url = URL.parse(text)
  return (
    url !== null &&
    /^smtps?:$/.test(url.protocol) &&
    url.hostname !== '' &&
    (url.search === '' || url.search === WITHOUT_TLS)
  )
}

/** The default domain of the sender: the host name of the service, or `localhost` for an IP address. */
function mailDomainOf(publicUrl: string): string {
  const hostname = URL.parse(publicUrl)?.hostname ?? ''
  return hostname === '' || isIP(hostname.replace(/^\[|\]$/g, '')) ? 'localhost' : hostname
}

function list(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
}

/** The origin of a URL; null if the URL is not http(s) or contains more than an origin. */
function originOf(text: string): string | null {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) return null
  return url.href === `${url.origin}/` ? url.origin : null
}

function isCidr(text: string): boolean {
  const [ipAddress = '', prefix, ...rest] = text.split('/')
  const bits = isIP(ipAddress) === 4 ? 32 : isIP(ipAddress) === 6 ? 128 : -1
  return (
    bits > 0 &&
    rest.length === 0 &&
    (prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= bits))
  )
}
