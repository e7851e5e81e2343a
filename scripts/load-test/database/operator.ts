import fastify, { type FastifyInstance } from 'fastify'
import { createCompany, generatePassword } from '../../../src/company/service.ts'
import { loadConfig } from '../../../src/config.ts'
import { createPasswordHasher } from '../../../src/crypto/password.ts'
import { createSealer } from '../../../src/crypto/sealing.ts'
import { type Connection, connect } from '../../../src/database/connect.ts'
import { migrate } from '../../../src/database/migrate.ts'
import { realSystem } from '../../../src/system.ts'
import { tokenPlugin } from '../../../src/token/plugin.ts'
import type { Credentials } from '../operations/credentials.ts'

/** What the load test does with the service's own code. Nothing else here depends on how that code is built. */
export interface Operator {
  /** Creates a company and returns its admin. */
  createCompany(): Promise<Credentials>
  signTokens(claims: SessionClaims): Promise<{ accessToken: string; refreshToken: string }>
}

/** Configuration that the load test and the service must share. */
export interface ServiceSettings {
  databaseUrl: string
  masterKeys: string
  publicUrl: string
}

export interface SessionClaims {
  companyId: string
  userId: string
  sessionId: string
  role: string
  permissions: string[]
  issuedAt: Date
  expiresAt: Date
}

/** Migrates the database and opens the key ring in it. */
export async function openOperator(
  settings: ServiceSettings,
  cleanup: AsyncDisposableStack,
): Promise<Operator> {
  const { databaseUrl, masterKeys, publicUrl } = settings
  const config = loadConfig({ DATABASE_URL: databaseUrl, MASTER_KEYS: masterKeys, PUBLIC_URL: publicUrl })
  const connection = connect({ url: databaseUrl, poolSize: 2 })
  cleanup.defer(() => connection.close())
  await migrate(connection.maintenance)
  const sealer = createSealer(config.masterKeys, realSystem.randomBytes)
  const app = fastify()
  cleanup.defer(() => app.close())
  await app.register(tokenPlugin, { config, db: connection.db, sealer, system: realSystem })
  return {
    createCompany: () => createLoadTestCompany(connection),
    signTokens: (claims) => signTokens(app.tokens, claims, config.accessTokenTtlSeconds),
  }
}

async function createLoadTestCompany({ db }: Connection): Promise<Credentials> {
  const password = generatePassword(realSystem)
  const email = 'admin@load.example'
  const { companyId } = await createCompany(
    { db, hasher: await createPasswordHasher(), system: realSystem },
    { name: `Load test ${new Date().toISOString()}`, adminEmail: email, password },
  )
  return { companyId, email, password }
}

/** The access token is new, the refresh token as old as its session. */
async function signTokens(
  tokens: FastifyInstance['tokens'],
  claims: SessionClaims,
  accessTokenTtlSeconds: number,
): Promise<{ accessToken: string; refreshToken: string }> {
  const { companyId, userId, sessionId, role, permissions } = claims
  const ids = { sub: userId, cid: companyId, sid: sessionId }
  const now = Date.now()
  const iat = Math.floor(now / 1000)
  const access = { ...ids, role, perms: permissions, iat, exp: iat + accessTokenTtlSeconds }
  return {
    accessToken: await tokens.signAccess(access, now),
    refreshToken: tokens.signRefresh({
      ...ids,
      gen: 0,
      iat: Math.floor(claims.issuedAt.getTime() / 1000),
      exp: Math.floor(claims.expiresAt.getTime() / 1000),
    }),
  }
}
