import { isIP } from 'node:net'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

const seconds = (fallback: number, minimum = 1) =>
  Type.Integer({ minimum, maximum: 10 * 365 * 86_400, default: fallback })
const port = (fallback: number) => Type.Integer({ minimum: 0, maximum: 65_535, default: fallback })

/** `max` hits in a window; the window starts with its first hit. */
export interface Limit {
  name: string
  max: number
  windowSeconds: number
}

/** The limits, each configurable as LIMIT_<NAME>=<max>/<seconds>, such as LIMIT_SIGN_IN_ATTEMPTS=30/60. */
const LIMITS = {
  signInFailures: { max: 10, windowSeconds: 900 },
  signInAttempts: { max: 30, windowSeconds: 60 },
  refresh: { max: 30, windowSeconds: 60 },
  regenerate: { max: 5, windowSeconds: 3600 },
  register: { max: 5, windowSeconds: 3600 },
  mail: { max: 3, windowSeconds: 3600 },
  passwordChanges: { max: 10, windowSeconds: 3600 },
  oneTimeTokens: { max: 10, windowSeconds: 60 },
  ingest: { max: 1000, windowSeconds: 1 },
  badSignatures: { max: 60, windowSeconds: 60 },
  refusals: { max: 120, windowSeconds: 60 },
  anonymous: { max: 600, windowSeconds: 60 },
  session: { max: 6000, windowSeconds: 60 },
}
export type Limits = Record<keyof typeof LIMITS, Limit>

/** One property a variable; `default` is what an unset one means. */
const Environment = Type.Object({
  NODE_ENV: Type.Union(
    ['development', 'test', 'production'].map((name) => Type.Literal(name)),
    { default: 'development' },
  ),
  DATABASE_URL: Type.Optional(Type.String({ pattern: '^postgres(ql)?://' })),
  MASTER_KEYS: Type.Optional(Type.String()),
  PUBLIC_URL: Type.Optional(Type.String()),
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
  SIGNATURE_TOLERANCE_SECONDS: seconds(300),
  IDEMPOTENCY_WINDOW_SECONDS: seconds(60, 0),
  REFRESH_RACE_SECONDS: seconds(1, 0),
  REFRESH_GRACE_SECONDS: seconds(0, 0),
  SMTP_URL: Type.Optional(Type.String()),
  MAIL_FROM: Type.Optional(Type.String()),
  DASHBOARD_ORIGINS: Type.String({ default: '' }),
  TRUST_PROXY: Type.String({ default: '' }),
  DATABASE_POOL_SIZE: Type.Integer({ minimum: 2, maximum: 1000, default: 10 }),
  LOG_LEVEL: Type.Union(
    ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'].map((level) => Type.Literal(level)),
    { default: 'info' },
  ),
  RATE_LIMIT_SCALE: Type.Number({ exclusiveMinimum: 0, maximum: 1e6, default: 1 }),
})

/** A 256-bit key by its id. The first of a list is in use, the others are still accepted. */
export interface MasterKey {
  id: string
  key: Buffer
}

export interface Config {
  /** Absent: the embedded Postgres, outside production only. */
  databaseUrl: string | undefined
  databasePoolSize: number
  /** Empty: made and kept in the data folder, outside production only. */
  masterKeys: MasterKey[]
  /** Scheme, host and port under which browsers and tenants reach the service; no trailing slash. */
  publicUrl: string
  listen: { host: string; port: number }
  opsListen: { host: string; port: number }
  dataDir: string
  accessTokenTtlSeconds: number
  refreshTokenTtlSeconds: number
  sessionMaxAgeSeconds: number
  cookieIdleSeconds: number
  cookieMaxAgeSeconds: number
  signatureToleranceSeconds: number
  idempotencyWindowSeconds: number
  refreshRaceSeconds: number
  refreshGraceSeconds: number
  /** Without an URL, outside production only, mail is written to the data folder. */
  mail: { smtpUrl: string | undefined; requireTls: boolean; from: string }
  dashboardOrigins: string[]
  trustProxy: string[]
  logLevel: string
  rateLimitScale: number
  limits: Limits
}

/** Every fault of the environment at once, each line naming its variable. */
export class ConfigError extends Error {
  override name = 'ConfigError'
}

/**
 * Reads the configuration from an environment. Pure.
 * @throws ConfigError that names every fault; values of secrets are never repeated.
 */
export function loadConfig(env: Record<string, string | undefined>): Config {
  const faults: string[] = []
  const values: Record<string, unknown> = {}
  for (const [name, schema] of Object.entries(Environment.properties)) {
    const text = env[name]
    // An empty variable is how shells and compose files say "not set".
    if (text === undefined || text === '') {
      values[name] = schema.default
      continue
    }
    const numeric = schema.type === 'integer' || schema.type === 'number'
    values[name] = numeric && /^\d{1,12}(\.\d{1,6})?$/.test(text) ? Number(text) : text
    const words = 'anyOf' in schema && schema.anyOf.map((one: { const?: unknown }) => one.const).join(', ')
    for (const error of Value.Errors(schema, values[name]))
      faults.push(`${name}: ${words ? `must be one of ${words}` : error.message.toLowerCase()}`)
  }
  const read = values as Static<typeof Environment>
  const production = read.NODE_ENV === 'production'

  const masterKeys = list(env['MASTER_KEYS']).flatMap((entry) => {
    const [, id, encoded] = /^([A-Za-z0-9_-]{1,32}):([A-Za-z0-9+/]{43}=)$/.exec(entry) ?? []
    if (!id || !encoded) {
      faults.push('MASTER_KEYS: each entry must be id:key, where key is the base64 of 32 random bytes')
      return []
    }
    return [{ id, key: Buffer.from(encoded, 'base64') }]
  })
  if (new Set(masterKeys.map(({ id }) => id)).size < masterKeys.length)
    faults.push('MASTER_KEYS: ids must differ')

  const limitVariables = new Set<string>()
  const limit = (name: keyof typeof LIMITS): Limit => {
    const kebab = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
    const variable = `LIMIT_${kebab.toUpperCase().replaceAll('-', '_')}`
    limitVariables.add(variable)
    const { max, windowSeconds } = LIMITS[name]
    const [, ownMax, ownSeconds] = /^([1-9]\d{0,8})\/([1-9]\d{0,6})$/.exec(env[variable] ?? '') ?? []
    if (env[variable] && !ownMax)
      faults.push(`${variable}: must be <max>/<seconds>, such as ${max}/${windowSeconds}`)
    return {
      name: kebab,
      max: Math.ceil(Number(ownMax ?? max) * Number(read.RATE_LIMIT_SCALE)),
      windowSeconds: Number(ownSeconds ?? windowSeconds),
    }
  }
  const limits: Limits = {
    signInFailures: limit('signInFailures'),
    signInAttempts: limit('signInAttempts'),
    refresh: limit('refresh'),
    regenerate: limit('regenerate'),
    register: limit('register'),
    mail: limit('mail'),
    passwordChanges: limit('passwordChanges'),
    oneTimeTokens: limit('oneTimeTokens'),
    ingest: limit('ingest'),
    badSignatures: limit('badSignatures'),
    refusals: limit('refusals'),
    anonymous: limit('anonymous'),
    session: limit('session'),
  }

  const unknown = Object.keys(env).filter((name) => name.startsWith('LIMIT_') && !limitVariables.has(name))
  for (const name of unknown) faults.push(`${name}: is no limit; there are ${[...limitVariables].join(', ')}`)

  const publicUrl = originOf(read.PUBLIC_URL ?? `http://127.0.0.1:${read.PORT}`)
  if (!publicUrl && read.PUBLIC_URL !== undefined)
    faults.push('PUBLIC_URL: must be http(s)://host[:port] without a path')
  if (read.SMTP_URL !== undefined && !isSmtpUrl(read.SMTP_URL))
    faults.push(
      'SMTP_URL: must be smtp://user:password@host:port, or smtps://; ?requireTLS=false alone may follow',
    )
  if (read.MAIL_FROM !== undefined && !SENDER.test(read.MAIL_FROM))
    faults.push('MAIL_FROM: must be an address, or a name and an address: Gatehouse <no-reply@example.com>')
  const mail = {
    smtpUrl: read.SMTP_URL,
    // Whoever can take TLS out of the way could read the links; the URL says where that is of no concern.
    requireTls: production && !read.SMTP_URL?.endsWith(WITHOUT_TLS),
    from: read.MAIL_FROM ?? `gatehouse <no-reply@${mailDomainOf(publicUrl)}>`,
  }
  const dashboardOrigins = list(read.DASHBOARD_ORIGINS)
  if (dashboardOrigins.some((origin) => originOf(origin) !== origin)) {
    faults.push('DASHBOARD_ORIGINS: each entry must be an origin such as https://app.example.com')
  }
  const trustProxy = list(read.TRUST_PROXY)
  if (!trustProxy.every(isCidr)) {
    faults.push('TRUST_PROXY: each entry must be an address or a CIDR such as 10.0.0.0/8')
  }

  if (production) {
    for (const name of ['DATABASE_URL', 'MASTER_KEYS', 'PUBLIC_URL', 'SMTP_URL']) {
      if (!env[name]) faults.push(`${name}: must be set in production`)
    }
    if (read.RATE_LIMIT_SCALE !== 1) faults.push('RATE_LIMIT_SCALE: must be 1 in production')
  }
  if (faults.length > 0) {
    throw new ConfigError(
      `The configuration has faults:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`,
    )
  }
  return {
    databaseUrl: read.DATABASE_URL,
    databasePoolSize: read.DATABASE_POOL_SIZE,
    masterKeys,
    publicUrl: publicUrl ?? '',
    listen: { host: read.HOST, port: read.PORT },
    opsListen: { host: read.OPS_HOST, port: read.OPS_PORT },
    dataDir: read.DATA_DIR,
    accessTokenTtlSeconds: read.ACCESS_TOKEN_TTL_SECONDS,
    refreshTokenTtlSeconds: read.REFRESH_TOKEN_TTL_SECONDS,
    sessionMaxAgeSeconds: read.SESSION_MAX_AGE_SECONDS,
    cookieIdleSeconds: read.COOKIE_IDLE_SECONDS,
    cookieMaxAgeSeconds: read.COOKIE_MAX_AGE_SECONDS,
    signatureToleranceSeconds: read.SIGNATURE_TOLERANCE_SECONDS,
    idempotencyWindowSeconds: read.IDEMPOTENCY_WINDOW_SECONDS,
    refreshRaceSeconds: read.REFRESH_RACE_SECONDS,
    refreshGraceSeconds: read.REFRESH_GRACE_SECONDS,
    mail,
    dashboardOrigins,
    trustProxy,
    logLevel: read.LOG_LEVEL,
    rateLimitScale: read.RATE_LIMIT_SCALE,
    limits,
  }
}

/** `address` or `Name <address>`; nothing that could begin another header (RFC 5322, section 3.4). */
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

/** Where mail of this service comes from, if nobody says: its own name, unless that is an address. */
function mailDomainOf(publicUrl: string | null): string {
  const hostname = publicUrl ? new URL(publicUrl).hostname : ''
  return hostname === '' || isIP(hostname.replace(/^\[|\]$/g, '')) ? 'localhost' : hostname
}

function list(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
}

/** The origin that an URL consists of, or null if it has anything more or is not http(s). */
function originOf(text: string): string | null {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) return null
  return url.href === `${url.origin}/` ? url.origin : null
}

function isCidr(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  const bits = isIP(address) === 4 ? 32 : isIP(address) === 6 ? 128 : -1
  return (
    bits > 0 &&
    rest.length === 0 &&
    (prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= bits))
  )
}
