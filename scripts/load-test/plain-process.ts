import { randomBytes, randomUUID } from 'node:crypto'
import { hash } from '@node-rs/argon2'
import { buildPlainService, inDays, newRefreshToken, sha256 } from './plain.ts'

/** Runs the plain service in its own process, and sends its users and sessions to the load test. */

/** This process's first message. */
export interface PlainReady {
  url: string
  companyId: string
  email: string
  password: string
  signingKey: string
}

/** As in gatehouse, so that sign-ins differ in everything else. */
const ARGON2ID = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }
const CHUNK = 5_000

const { app, db, signAccess } = await buildPlainService(process.env['DATABASE_URL'] ?? '')
const [companyId, userId, email, password] = [
  randomUUID(),
  randomUUID(),
  'ada@plain.example',
  'correct horse battery',
]
const user = { id: userId, company_id: companyId, email, password_hash: await hash(password, ARGON2ID) }
await db.insertInto('users').values(user).execute()
const secret = randomBytes(32)
await db.insertInto('signing_secrets').values({ company_id: companyId, secret }).execute()
const url = await app.listen({ host: '127.0.0.1', port: 0 })

process.on('message', async (count: number) => {
  const made = Array.from({ length: count }, () => {
    const id = randomUUID()
    return { id, accessToken: signAccess(userId, id), refreshToken: newRefreshToken() }
  })
  for (let from = 0; from < count; from += CHUNK) {
    const rows = made.slice(from, from + CHUNK).map(({ id, refreshToken }) => ({
      ...{ id, user_id: userId, refresh_hash: sha256(refreshToken), expires_at: inDays(7), ended_at: null },
    }))
    await db.insertInto('sessions').values(rows).execute()
  }
  process.send?.(made)
})
process.on('disconnect', () => process.exit())
const ready: PlainReady = { url, companyId, email, password, signingKey: secret.toString('base64') }
process.send?.(ready)
