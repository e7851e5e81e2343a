import { createHash, generateKeyPairSync, randomBytes, randomInt, randomUUID, sign } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildApp } from '../src/app.ts'
import { loadConfig } from '../src/config.ts'
import { NOBODYS_KEY } from '../src/crypto/passkey-keys.ts'
import { createPasswordHasher } from '../src/crypto/password.ts'
import { connect } from '../src/database/connect.ts'
import { migrate } from '../src/database/migrate.ts'
import { createRegistry } from '../src/http/metrics.ts'
import { createLimitedHasher } from '../src/limits/hashing.ts'
import { startEmbeddedPostgres } from '../src/local/postgres/server.ts'
import { insertServicePassword } from '../src/member/service-passwords-repository.ts'
import { changeCompanyStatus, createCompany } from '../src/operator/companies.ts'
import { changeUserStatus, createUser } from '../src/operator/users.ts'
import { giveHandle, insertPasskey } from '../src/second-factor/repository.ts'
import { newId, realSystem } from '../src/system.ts'

/**
 * Measures whether the time of an answer reveals what its content hides: why a sign-in failed, or whether an
 * account exists. Starts a service on a temporary database and sends one request at a time, with the cases in
 * a new random order in each round.
 *
 *   node scripts/answer-timing.ts [rounds]
 *
 * Prints the median of each case, and per endpoint the largest ratio of two; exits 1 if one is above 1.05.
 */

const rounds = Number(process.argv[2] ?? 2000)
const WARM_UP_ROUNDS = 50
const MAX_RATIO = 1.05
const PASSWORD = 'correct horse battery'

const dataDir = await mkdtemp(join(tmpdir(), 'gatehouse-timing-'))
const postgres = await startEmbeddedPostgres({ dataDir, randomBytes })
const connection = connect({ url: postgres.url, poolSize: 10 })
const { db, auditDb } = connection
await migrate(db)
const system = realSystem
const hasher = await createLimitedHasher()
const config = loadConfig({
  DATABASE_URL: postgres.url,
  MASTER_KEYS: `timing:${randomBytes(32).toString('base64')}`,
  RATE_LIMIT_SCALE: '1000000',
  DATA_DIR: dataDir,
  // So they need not be built.
  PAGES_URL: 'https://app.example.com',
  LOG_LEVEL: 'silent',
})
const context = { db, hasher: await createPasswordHasher(), system, config }
const { app, platform } = await buildApp({ config, db, auditDb, system, hasher, registry: createRegistry() })
const url = `${await app.listen({ host: '127.0.0.1', port: 0 })}/api`
const agent = new Agent({ keepAlive: true, maxSockets: 1 })

async function newCompany(name: string) {
  const adminEmail = `admin@${name}.example`
  const { companyId, handle } = await createCompany(context, { name, adminEmail, password: PASSWORD })
  return { handle, account: { companyId, email: adminEmail, password: PASSWORD } }
}

const { handle: company, account: open } = await newCompany('open')
const { account: suspended } = await newCompany('suspended')
await changeCompanyStatus(context, suspended.companyId, 'suspended')
const disabled = { companyId: open.companyId, email: 'former@open.example', password: PASSWORD }
await createUser(context, disabled.companyId, { ...disabled, role: 'viewer' })
await changeUserStatus(context, disabled.companyId, disabled, 'disabled')

const unverified = { companyId: open.companyId, email: 'late@open.example' }
await createUser(context, unverified.companyId, { ...unverified, role: 'viewer', password: PASSWORD })
await db.updateTable('users').set({ email_verified_at: null }).where('email', '=', unverified.email).execute()
/** Users with a second factor, whose codes are never asked for. */
async function withFactor(kind: 'totp' | 'passkey') {
  const user = {
    companyId: open.companyId,
    email: `${kind}@open.example`,
    password: 'incorrect horse battery',
  }
  await createUser(context, user.companyId, { ...user, role: 'viewer', password: PASSWORD })
  await db
    .updateTable('users')
    .set({ second_factors: [kind] })
    .where('email', '=', user.email)
    .execute()
  return user
}
const [byTotp, byPasskey] = [await withFactor('totp'), await withFactor('passkey')]
/** Servers, whose passwords are asked for by a form that none of these have. */
const servicePassword = (byte: number) => `gsp_${Buffer.alloc(32, byte).toString('base64url')}`
async function withServicePassword(email: string) {
  const { userId } = await createUser(context, open.companyId, { email, role: 'viewer', password: PASSWORD })
  const first = { digest: sha256(email), hint: 'AAAA', createdBy: null, at: new Date(system.now()) }
  await insertServicePassword(db, open.companyId, userId, first)
  await db
    .updateTable('users')
    .set({ kind: 'service', password_hash: '' })
    .where('user_id', '=', userId)
    .execute()
  return { companyId: open.companyId, email, password: servicePassword(1) }
}
const nobody = { companyId: open.companyId, email: 'nobody@open.example' }
const nowhere = { companyId: randomUUID(), email: open.email }
/** By a handle, which strangers can guess; the unknown one has the form of those that the service makes. */
const atHandle = { company, email: open.email }
const nobodyAtHandle = { ...atHandle, email: nobody.email }
const atNoHandle = { ...atHandle, company: 'nobody-4821' }
const idsOf = ({ companyId, email }: { companyId: string; email: string }) => ({ companyId, email })

const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest()

const server = await withServicePassword('worker-1234@service.invalid')
const disabledServer = await withServicePassword('worker-4321@service.invalid')
await changeUserStatus(context, open.companyId, disabledServer, 'disabled')

/** A sign-in with a passkey of that id, signed by a key that nobody has stored. */
function signInBy(credentialId: Buffer, challenge: string) {
  const id = credentialId.toString('base64url')
  const client = Buffer.from(JSON.stringify({ type: 'webauthn.get', challenge, origin: config.publicUrl }))
  // The hash of the relying party, what is said of the user, and the counter.
  const data = Buffer.concat([sha256(config.passkeys.rpId), Buffer.from('1d00000000', 'hex')])
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const response = {
    clientDataJSON: client.toString('base64url'),
    authenticatorData: data.toString('base64url'),
    signature: sign('sha256', Buffer.concat([data, sha256(client)]), privateKey).toString('base64url'),
    userHandle: 'AAAA',
  }
  return { challenge, response: { id, rawId: id, type: 'public-key', clientExtensionResults: {}, response } }
}

/** The credential id of a member's passkey. */
async function storePasskey({ companyId, email }: { companyId: string; email: string }): Promise<Buffer> {
  const { userId } = await createUser(context, companyId, { email, role: 'viewer', password: PASSWORD })
  await giveHandle(db, companyId, userId, randomBytes(64))
  const [credentialId, at] = [randomBytes(32), new Date(system.now())]
  const ids = { factorId: newId(system), name: 'Passkey', credentialId, publicKey: NOBODYS_KEY, at }
  const passkey = { ...ids, signCount: 0, backupEligible: true, transports: [] }
  await db.transaction().execute((tx) => insertPasskey(tx, companyId, userId, passkey))
  return credentialId
}
const asked = await fetch(`${url}/auth/login/passkey/options`, { method: 'POST' })
const challenge = /"challenge":"([\w-]+)"/.exec(await asked.text())?.[1] ?? ''
const stored = await storePasskey({ companyId: open.companyId, email: 'passkey.alone@open.example' })

/** Per endpoint: the status of its answer, and the cases that must not differ in time. */
const ENDPOINTS: [path: string, status: number, cases: [name: string, body: object][]][] = [
  [
    // First, since its challenge is good for five minutes.
    '/auth/login/passkey',
    401,
    [
      ['unknown passkey', signInBy(randomBytes(32), challenge)],
      ['wrong signature', signInBy(stored, challenge)],
    ],
  ],
  [
    '/auth/login',
    401,
    [
      ['unknown company', { ...nowhere, password: PASSWORD }],
      ['unknown user', { ...nobody, password: PASSWORD }],
      ['wrong password', { ...open, password: 'incorrect horse battery' }],
      ['with a code', byTotp],
      ['with a passkey', byPasskey],
      ['disabled user', disabled],
      ['suspended company', suspended],
    ],
  ],
  [
    '/auth/login',
    401,
    [
      ['server', server],
      ['disabled server', disabledServer],
      ['person', { ...open, password: servicePassword(2) }],
      ['nobody', { ...nobody, password: servicePassword(3) }],
      ['no company', { ...nowhere, password: servicePassword(4) }],
    ],
  ],
  [
    '/auth/password/forgot',
    202,
    [
      ['account', idsOf(open)],
      ['no account', nobody],
      ['no company', nowhere],
      ['disabled user', idsOf(disabled)],
    ],
  ],
  [
    '/auth/login',
    401,
    [
      ['unknown handle', { ...atNoHandle, password: PASSWORD }],
      ['no user at handle', { ...nobodyAtHandle, password: PASSWORD }],
      ['wrong at handle', { ...atHandle, password: 'incorrect horse battery' }],
    ],
  ],
  [
    '/auth/password/forgot',
    202,
    [
      ['account at handle', atHandle],
      ['no user at handle', nobodyAtHandle],
      ['unknown handle', atNoHandle],
    ],
  ],
  [
    '/auth/verify-email/resend',
    202,
    [
      ['unverified', unverified],
      ['verified', idsOf(open)],
      ['no account', nobody],
    ],
  ],
]

/** Milliseconds until the end of the answer. */
function timeOf(path: string, status: number, body: object): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const startedAt = performance.now()
  const headers = { 'content-type': 'application/json' }
  const sending = request(`${url}${path}`, { method: 'POST', agent, headers }, (answer) => {
    answer.resume().on('end', () => {
      if (answer.statusCode === status) resolve(performance.now() - startedAt)
      else reject(new Error(`${path} answered ${answer.statusCode}`))
    })
  })
  sending.on('error', reject).end(JSON.stringify(body))
  return promise
}

function shuffled<T>(values: readonly T[]): T[] {
  const left = [...values]
  return values.flatMap(() => left.splice(randomInt(left.length), 1))
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

for (const [path, status, cases] of ENDPOINTS) {
  const times = new Map<string, number[]>(cases.map(([name]) => [name, []]))
  for (let round = -WARM_UP_ROUNDS; round < rounds; round += 1) {
    for (const [name, body] of shuffled(cases)) {
      const ms = await timeOf(path, status, body)
      if (round >= 0) times.get(name)?.push(ms)
    }
  }
  console.log(path)
  const medians = [...times].map(([name, values]) => ({ name, ms: median(values) }))
  for (const { name, ms } of medians) console.log(`  ${name.padEnd(18)} ${ms.toFixed(3)} ms`)
  const ratio = Math.max(...medians.map(({ ms }) => ms)) / Math.min(...medians.map(({ ms }) => ms))
  console.log(`  largest ratio of two medians, ${rounds} rounds: ${ratio.toFixed(4)}`)
  if (ratio > MAX_RATIO) process.exitCode = 1
}

agent.destroy()
await Promise.all([app.close(), platform.close()])
await connection.close()
await postgres.stop()
await rm(dataDir, { recursive: true, force: true })
