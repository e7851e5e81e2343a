import { randomBytes, randomInt, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildApp } from '../src/app.ts'
import { createCompany, createUser } from '../src/company/service.ts'
import { loadConfig } from '../src/config.ts'
import { createPasswordHasher } from '../src/crypto/password.ts'
import { connect } from '../src/database/connect.ts'
import { startEmbeddedPostgres } from '../src/database/embedded/server.ts'
import { migrate } from '../src/database/migrate.ts'
import { createRegistry } from '../src/http/observe.ts'
import { changeCompanyStatus, changeUserStatus } from '../src/session/operator.ts'
import { realSystem } from '../src/system.ts'

/**
 * Whether the time of a failed sign-in tells why it failed. Starts a service on a database that is thrown
 * away, and lets the five failures take turns, in an order drawn anew each round, one request at a time.
 *
 *   node scripts/sign-in-timing.ts [rounds]
 *
 * Prints the median of each and the largest ratio between two of them; exits 1 if that is above 1.05.
 */

const rounds = Number(process.argv[2] ?? 2000)
const WARM_UP_ROUNDS = 50
const MAX_RATIO = 1.05
const PASSWORD = 'correct horse battery'

const dataDir = await mkdtemp(join(tmpdir(), 'gatehouse-timing-'))
const postgres = await startEmbeddedPostgres({ dataDir, randomBytes })
const connection = connect({ url: postgres.url, poolSize: 10 })
const { db } = connection
await migrate(db)
const system = realSystem
const hasher = await createPasswordHasher()
const context = { db, hasher, system }
const config = loadConfig({
  DATABASE_URL: postgres.url,
  MASTER_KEYS: `timing:${randomBytes(32).toString('base64')}`,
  RATE_LIMIT_SCALE: '1000000',
  LOG_LEVEL: 'silent',
})
const app = await buildApp({ config, db, system, hasher, registry: createRegistry() })
const url = `${await app.listen({ host: '127.0.0.1', port: 0 })}/api/auth/login`
const agent = new Agent({ keepAlive: true, maxSockets: 1 })

async function newCompany(name: string) {
  const adminEmail = `admin@${name}.example`
  const { companyId } = await createCompany(context, { name, adminEmail, password: PASSWORD })
  return { companyId, email: adminEmail, password: PASSWORD }
}

const open = await newCompany('open')
const suspended = await newCompany('suspended')
await changeCompanyStatus(context, suspended.companyId, 'suspended')
const disabled = { companyId: open.companyId, email: 'former@open.example', password: PASSWORD }
await createUser(context, disabled.companyId, { ...disabled, role: 'viewer' })
await changeUserStatus(context, disabled.companyId, disabled, 'disabled')

const failures = [
  ['unknown company', { ...open, companyId: randomUUID() }],
  ['unknown user', { ...open, email: 'nobody@open.example' }],
  ['wrong password', { ...open, password: 'incorrect horse battery' }],
  ['disabled user', disabled],
  ['suspended company', suspended],
] as const

/** Milliseconds until the answer is there. */
function timeOf(credentials: object): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const startedAt = performance.now()
  const headers = { 'content-type': 'application/json' }
  const sending = request(url, { method: 'POST', agent, headers }, (answer) => {
    answer.resume().on('end', () => {
      if (answer.statusCode === 401) resolve(performance.now() - startedAt)
      else reject(new Error(`a failed sign-in was answered ${answer.statusCode}`))
    })
  })
  sending.on('error', reject).end(JSON.stringify(credentials))
  return promise
}

function shuffled<T>(values: readonly T[]): T[] {
  const left = [...values]
  return values.flatMap(() => left.splice(randomInt(left.length), 1))
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

const times = new Map<string, number[]>(failures.map(([cause]) => [cause, []]))
for (let round = -WARM_UP_ROUNDS; round < rounds; round += 1) {
  for (const [cause, credentials] of shuffled(failures)) {
    const ms = await timeOf(credentials)
    if (round >= 0) times.get(cause)?.push(ms)
  }
}

const medians = [...times].map(([cause, values]) => ({ cause, ms: median(values) }))
for (const { cause, ms } of medians) console.log(`${cause.padEnd(18)} ${ms.toFixed(3)} ms`)
const ratio = Math.max(...medians.map(({ ms }) => ms)) / Math.min(...medians.map(({ ms }) => ms))
console.log(`largest ratio of two medians, ${rounds} rounds: ${ratio.toFixed(4)}`)
process.exitCode = ratio <= MAX_RATIO ? 0 : 1

agent.destroy()
await app.close()
await connection.close()
await postgres.stop()
await rm(dataDir, { recursive: true, force: true })
