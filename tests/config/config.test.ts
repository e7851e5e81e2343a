import { readFile } from 'node:fs/promises'
import { parseEnv } from 'node:util'
import { expect, test } from 'vitest'
import { type Config, loadConfig, VARIABLES } from '../../src/config/config.ts'
import { COUNTED } from '../../src/config/limits.ts'
import { faultsOf, KEY, namesOf, PRODUCTION, randomKey } from './production.ts'

const OTHER_KEY = randomKey('other').toString('base64')

const defaults = loadConfig({})

const refused = (env: Record<string, string>) => namesOf({ ...PRODUCTION, ...env })

const variableOf = (limit: string) => `LIMIT_${limit.toUpperCase().replaceAll('-', '_')}`

/** ACCESS_TOKEN_TTL_SECONDS becomes accessTokenTtlSeconds. */
const camelCase = (name: string) =>
  name.toLowerCase().replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())

test('.env.example has every variable and limit with its default (ASVS 2.1.3, 13.1.2)', async () => {
  const example = await readFile(new URL('../../.env.example', import.meta.url), 'utf8')
  const env = parseEnv(example.replace(/^# (?=[A-Z_]+=)/gm, ''))
  expect(loadConfig(env)).toEqual(defaults)
  expect(loadConfig(Object.fromEntries(VARIABLES.map((name) => [name, ''])))).toEqual(defaults)
  const limits = Object.values(defaults.limits).map(({ name }) => variableOf(name))
  expect(Object.keys(env).sort()).toEqual([...VARIABLES, ...limits].sort())
  const stated = Object.entries(COUNTED).map(([key, counts]) => {
    const { name, max, windowSeconds } = Object(defaults.limits)[key]
    const comment = `# ${counts[0]?.toUpperCase()}${counts.slice(1)}:`
    return `${comment}\n# ${variableOf(name)}=${max}/${windowSeconds}\n`
  })
  expect(example.match(/^# [^\n]+\n# LIMIT_[^\n]+\n/gm)).toEqual(stated)
})

test('every variable can be set', () => {
  const numbers = Object.entries({
    ...{ DRAIN_DELAY_SECONDS: 7, WORKERS: 3, DATABASE_POOL_SIZE: 20, MAX_SESSIONS_PER_MEMBER: 20 },
    ...{ ACCESS_TOKEN_TTL_SECONDS: 60, REFRESH_TOKEN_TTL_SECONDS: 3600, SESSION_MAX_AGE_SECONDS: 7200 },
    ...{ COOKIE_IDLE_SECONDS: 600, COOKIE_MAX_AGE_SECONDS: 1200, SIGNATURE_TOLERANCE_SECONDS: 30 },
    ...{ IDEMPOTENCY_WINDOW_SECONDS: 0, REFRESH_RACE_SECONDS: 0, REFRESH_GRACE_SECONDS: 5 },
    ...{ AUDIT_RETENTION_DAYS: 90, EVENT_RETENTION_DAYS: 30 },
  })
  const config = loadConfig({
    ...PRODUCTION,
    ...Object.fromEntries(numbers.map(([name, value]) => [name, String(value)])),
    MASTER_KEYS: ` first:${KEY} , second:${OTHER_KEY} `,
    PAGES_URL: 'https://app.example.com',
    PASSKEY_RP_ID: 'example.com',
    ...{ HOST: '0.0.0.0', PORT: '0', OPS_HOST: '::1', OPS_PORT: '65535' },
    ...{ PLATFORM_HOST: '10.0.0.7', PLATFORM_PORT: '4002', DATA_DIR: '/var/lib/gatehouse' },
    ...{ MAX_MEMBERS: '30', MAX_MEMBERS_IN_TRIAL: '3', MAX_INVITATIONS_IN_TRIAL: '2' },
    SMTP_NAME: 'mail.example.com',
    MAIL_FROM: 'Gatehouse <gate@example.com>',
    DASHBOARD_ORIGINS: 'https://app.example.com, https://admin.example.com:8443',
    BREACHED_PASSWORDS_URL: 'https://api.pwnedpasswords.com/range',
    TRUST_PROXY: '10.0.0.0/8,192.0.2.1, 2001:db8::/32',
    LOG_LEVEL: 'warn',
    LIMIT_SIGN_IN_FAILURES: '5/60',
  })
  expect(config).toEqual({
    ...defaults,
    ...Object.fromEntries(numbers.map(([name, value]) => [camelCase(name), value])),
    databaseUrl: PRODUCTION.DATABASE_URL,
    masterKeys: [
      { id: 'first', key: randomKey('one') },
      { id: 'second', key: randomKey('other') },
    ],
    publicUrl: 'https://auth.example.com',
    pagesUrl: 'https://app.example.com',
    hasPages: false,
    passkeys: {
      rpId: 'example.com',
      origins: ['https://auth.example.com', 'https://app.example.com', 'https://admin.example.com:8443'],
    },
    listen: { host: '0.0.0.0', port: 0 },
    opsListen: { host: '::1', port: 65_535 },
    platformListen: { host: '10.0.0.7', port: 4002 },
    dataDir: '/var/lib/gatehouse',
    quotas: { members: 30, membersInTrial: 3, invitationsInTrial: 2 },
    mail: {
      smtpUrl: PRODUCTION.SMTP_URL,
      requireTls: true,
      clientName: 'mail.example.com',
      from: { name: 'Gatehouse', address: 'gate@example.com' },
    },
    dashboardOrigins: ['https://app.example.com', 'https://admin.example.com:8443'],
    breachedPasswordsUrl: 'https://api.pwnedpasswords.com/range',
    trustProxy: ['10.0.0.0/8', '192.0.2.1', '2001:db8::/32'],
    logLevel: 'warn',
    limits: {
      ...defaults.limits,
      signInFailures: { name: 'sign-in-failures', max: 5, windowSeconds: 60 },
    },
  })
})

test('DATABASE_URL can name only one host', () => {
  for (const DATABASE_URL of [
    'postgres://db',
    'postgresql://user:p,a:s@s@db.example:5432/name?sslmode=require&application_name=a,b',
    'postgres://db/name?user=me@db&application_name=a/b?c',
    'postgres://user:p%2Cw@[2001:db8::1]:5432/name',
    'postgres://user@/name?host=/var/run/postgresql&port=5433',
    'postgres://user@%2Fvar%2Frun%2Fpostgresql/name',
  ])
    expect(loadConfig({ DATABASE_URL }).databaseUrl).toBe(DATABASE_URL)
  const [fault] = faultsOf({ DATABASE_URL: 'postgres://u:s3cret@h1,h2/db' })
  expect(fault).toMatch(/DATABASE_URL: must name one host and one port, such as .* name an HAProxy: /)
  expect(fault).not.toMatch(/s3cret|h1/)
})

test.for(['12#x', '12?x', 'p@ss/word'])('the password %s in a URL must be percent-encoded', (password) => {
  for (const [name, read, url] of [
    ['DATABASE_URL', (config: Config) => config.databaseUrl, 'postgres://user:PASSWORD@db/name'],
    ['SMTP_URL', (config: Config) => config.mail.smtpUrl, 'smtp://user:PASSWORD@mail.example:587'],
  ] as const) {
    const faults = faultsOf({ [name]: url.replace('PASSWORD', password) })
    expect(faults).toEqual([expect.stringMatching(`${name}: .*percent-encoded`)])
    expect(faults[0]).not.toContain(password)
    const encoded = url.replace('PASSWORD', encodeURIComponent(password))
    expect(read(loadConfig({ [name]: encoded }))).toBe(encoded)
  }
})

test('all faults are reported by their names, without a secret (ASVS 13.1.2, 13.3.1, 16.2.5)', () => {
  const secret = 'c4n4ry'
  const env = {
    DATABASE_URL: `mysql://user:${secret}@db/gatehouse`,
    MASTER_KEYS: `id:${secret},${secret}:${KEY}x`,
    PUBLIC_URL: `https://user:${secret}@auth.example`,
    PORT: secret,
    ACCESS_TOKEN_TTL_SECONDS: '0',
    SMTP_URL: `http://user:${secret}@smtp.example`,
    MAIL_FROM: secret,
    DASHBOARD_ORIGINS: `https://user:${secret}@app.example`,
    TRUST_PROXY: secret,
    DATABASE_POOL_SIZE: '1',
    LOG_LEVEL: secret,
    LIMIT_REFRESH: secret,
  }
  expect(namesOf(env).sort()).toEqual(Object.keys(env).sort())
  for (const word of [secret, KEY]) expect(faultsOf(env).join()).not.toContain(word)
  const several = { PUBLIC_URL: 'http://a.example/x', MASTER_KEYS: 'x', REFRESH_RACE_SECONDS: '-1' }
  expect(namesOf({ ...PRODUCTION, ...several }).sort()).toEqual(Object.keys(several).sort())
})

test.for([
  ['PORT', ['-1', '65536', '3000.5', '0x10']],
  ['SESSION_MAX_AGE_SECONDS', ['0', '99999999999', '1 hour']],
  ['DRAIN_DELAY_SECONDS', ['-1', '601', '0.5']],
  ['RATE_LIMIT_SCALE', ['0', 'NaN', '2000000']],
  ['DATABASE_URL', ['localhost', 'postgres://u@[::1]:5432,[::2]:5432/db', 'postgres://u@/db?host=a,b']],
  ['DATABASE_URL', ['postgres:///db?host=a&host=b', 'postgres://a/db?sslmode=require&port=1,2']],
  ['PUBLIC_URL', ['auth.example', 'ftp://a.example', 'https://a.example/api', 'https://u:p@a.example']],
  ['DASHBOARD_ORIGINS', ['*', 'https://*.example.com', 'https://a.example/x', 'https://A.example']],
  ['SMTP_URL', ['http://smtp.example', 'smtp://', 'smtp://x.example?requiretls=false', 'smtp://x:99999']],
  ['SMTP_NAME', ['[10.0.0.1]', 'https://mail.example', 'MAIL.example', 'mail..example']],
  ['MAIL_FROM', ['<gate@x.example', 'a@x.example, b@x.example', 'A <a@x.example>\r\nBcc: b@x.example']],
  ['BREACHED_PASSWORDS_URL', ['ftp://api.example', 'https://api.example/', 'https://u:p@api.example']],
  ['TRUST_PROXY', ['true', 'proxy.internal', '10.0.0.0/', '10.0.0.0/8/8', '300.0.0.1', '::/129']],
  ['MASTER_KEYS', [KEY, `:${KEY}`, `id:${KEY}x`, 'id:c2hvcnQ=', `a:${KEY},a:${OTHER_KEY}`]],
  ['LIMIT_REFRESH', ['30', '0/60', '30/0', '-1/60', '30/60/60', '1.5/60']],
] as const)('an invalid %s is refused', ([name, texts]) => {
  for (const text of texts) expect([text, namesOf({ [name]: text })]).toEqual([text, [name]])
})

test('the fault of a number names its range and default', () => {
  expect(faultsOf({ PORT: 'x', WORKERS: '0', RATE_LIMIT_SCALE: '0' })).toEqual([
    '  - PORT: must be a whole number from 0 to 65535, such as 3000',
    '  - WORKERS: must be a whole number from 1 to 256',
    '  - RATE_LIMIT_SCALE: must be a number above 0 and up to 1000000, such as 1',
  ])
})

test('every limit can be set as LIMIT_<NAME>=<max>/<seconds> (ASVS 2.1.3, 2.4.1)', () => {
  const limits = Object.entries(defaults.limits).map(
    ([key, limit], index) => [key, { ...limit, max: index + 1, windowSeconds: 11 }] as const,
  )
  const env = Object.fromEntries(limits.map(([, { name, max }]) => [variableOf(name), `${max}/11`]))
  expect(loadConfig(env).limits).toEqual(Object.fromEntries(limits))
})

test('RATE_LIMIT_SCALE scales limits outside production, never below 1', () => {
  expect(loadConfig({ RATE_LIMIT_SCALE: '1000' }).limits.refresh.max).toBe(30_000)
  expect(loadConfig({ RATE_LIMIT_SCALE: '0.001' }).limits.refresh.max).toBe(1)
  for (const scale of ['1000', '0.5'])
    expect(refused({ RATE_LIMIT_SCALE: scale })).toEqual(['RATE_LIMIT_SCALE'])
  expect(refused({ RATE_LIMIT_SCALE: '1' })).toEqual([])
})

test('production requires variables without a safe default (ASVS 13.2.3)', () => {
  expect(faultsOf(PRODUCTION)).toEqual([])
  const required = ['DATABASE_URL', 'MASTER_KEYS', 'PUBLIC_URL', 'SMTP_URL']
  expect(namesOf({ NODE_ENV: 'production' })).toEqual(required)
  for (const name of required) expect(refused({ [name]: '' })).toEqual([name])
})

test('production drains before it stops, and sends email over TLS by default', () => {
  const { mail, drainDelaySeconds } = loadConfig(PRODUCTION)
  expect(drainDelaySeconds).toBe(5)
  expect(loadConfig({ ...PRODUCTION, DRAIN_DELAY_SECONDS: '0' }).drainDelaySeconds).toBe(0)
  const from = { name: 'gatehouse', address: 'no-reply@auth.example.com' }
  expect(mail).toMatchObject({ requireTls: true, from })
  const SMTP_URL = 'smtp://127.0.0.1:25?requireTLS=false'
  expect(loadConfig({ ...PRODUCTION, SMTP_URL }).mail.requireTls).toBe(false)
})

test('production refuses URLs without TLS, except on this machine (ASVS 12.2.1)', () => {
  for (const origin of ['http://auth.example.com', 'http://10.0.0.1', 'http://localhost.example.com']) {
    expect(refused({ PUBLIC_URL: origin })).toEqual(['PUBLIC_URL'])
    expect(refused({ DASHBOARD_ORIGINS: `https://a.example, ${origin}` })).toEqual(['DASHBOARD_ORIGINS'])
  }
  for (const host of ['localhost:3000', '127.0.0.1', '[::1]:3000', 'app.localhost'])
    expect(refused({ PUBLIC_URL: `http://${host}`, DASHBOARD_ORIGINS: `http://${host}` })).toEqual([])
})

test('production accepts only random master keys (ASVS 11.5.1)', () => {
  const weak = [
    Buffer.alloc(32, randomKey('x').subarray(0, 16)),
    Buffer.from(Array.from({ length: 32 }, (_, index) => index)),
    Buffer.from('please-change-this-master-key-!!'),
  ].map((key) => key.toString('base64'))
  for (const key of weak) {
    expect([key, refused({ MASTER_KEYS: `first:${KEY},second:${key}` })]).toEqual([key, ['MASTER_KEYS']])
    expect(namesOf({ MASTER_KEYS: `first:${key}` })).toEqual([])
  }
  const keys = Array.from({ length: 200 }, (_, index) => randomKey(`key ${index}`).toString('base64'))
  expect(refused({ MASTER_KEYS: keys.map((key, index) => `k${index}:${key}`).join() })).toEqual([])
})

test.for([
  ['REFRESH_RACE_SECONDS', '86400'],
  ['REFRESH_GRACE_SECONDS', '3600'],
  ['IDEMPOTENCY_WINDOW_SECONDS', '86400'],
  ['SIGNATURE_TOLERANCE_SECONDS', '86400'],
  ['SIGNATURE_TOLERANCE_SECONDS', '1'],
  ['ACCESS_TOKEN_TTL_SECONDS', '1'],
  ['SESSION_MAX_AGE_SECONDS', '315360000'],
  // These would outlive the token or session that they belong to.
  ['ACCESS_TOKEN_TTL_SECONDS', '86400', { REFRESH_TOKEN_TTL_SECONDS: '3600' }],
  ['REFRESH_TOKEN_TTL_SECONDS', '7776000'],
  ['COOKIE_IDLE_SECONDS', '1209600'],
] as const)('production refuses %s=%s', ([name, value, others = {}]) => {
  expect(refused({ [name]: value, ...others })).toEqual([name])
  expect(namesOf({ [name]: value, ...others })).toEqual([])
})

test('production refuses limits that are too loose or too strict (ASVS 2.4.1)', () => {
  for (const [name, value] of [
    ['LIMIT_SIGN_IN_FAILURES', '999999999/1'],
    ['LIMIT_SIGN_IN_FAILURES', '10/1'],
    ['LIMIT_REFRESH', '3001/60'],
    ['LIMIT_REFRESH', '3000/9999999'],
    ['LIMIT_INGEST', '1/864000'],
  ] as const) {
    expect([value, refused({ [name]: value })]).toEqual([value, [name]])
    expect(namesOf({ [name]: value })).toEqual([])
  }
  const fitting = { LIMIT_REFRESH: '3000/60', LIMIT_INGEST: '50000/1', LIMIT_REGISTER: '1/86400' }
  expect(refused(fitting)).toEqual([])
})

test('TRUST_PROXY cannot cover a large part of the internet (ASVS 4.1.3)', () => {
  for (const network of ['0.0.0.0/0', '128.0.0.0/1', '::ffff:0:0/96', '2000::/3', '10.0.0.0/8,::/0']) {
    expect([network, namesOf({ TRUST_PROXY: network })]).toEqual([network, ['TRUST_PROXY']])
  }
  const networks = '10.0.0.0/8,1.0.0.0/8,fc00::/7,2001:db8::/32,::1,::ffff:10.0.0.0/104'
  expect(faultsOf({ TRUST_PROXY: networks })).toEqual([])
})

test('warnings outside production name reachable listeners and scaled limits', () => {
  const env = { HOST: '0.0.0.0', OPS_HOST: '::', PLATFORM_HOST: '*', RATE_LIMIT_SCALE: '2' }
  expect(loadConfig(env).warnings).toEqual([
    expect.stringContaining('HOST=0.0.0.0'),
    expect.stringContaining('OPS_HOST=::'),
    expect.stringContaining('PLATFORM_HOST=*'),
    expect.stringContaining('RATE_LIMIT_SCALE=2'),
  ])
  expect(loadConfig({ ...PRODUCTION, HOST: '0.0.0.0', OPS_HOST: '::' }).warnings).toEqual([])
})
