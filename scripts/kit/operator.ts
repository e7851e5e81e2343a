import { createSigner } from 'fast-jwt'
import { type Config, loadConfig } from '../../src/config/config.ts'
import { createPasswordHasher } from '../../src/crypto/password.ts'
import { generatePassword } from '../../src/crypto/password-policy.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { type Connection, connect } from '../../src/database/connect.ts'
import { migrate } from '../../src/database/migrate.ts'
import { changeSubscription, createCompany } from '../../src/operator/companies.ts'
import { createClient } from '../../src/operator/platform.ts'
import { realSystem } from '../../src/system.ts'
import { issuerOf } from '../../src/token/claims.ts'
import { addFirstKey } from '../../src/token/key-rotation.ts'
import { openKeyRing } from '../../src/token/keys.ts'
import { createTokens, refreshTokenOptions, type Tokens } from '../../src/token/plugin.ts'
import type { Credentials } from './operations.ts'

/** Uses the service's own code. Nothing else here depends on how that code is built. */
export interface Operator {
  createCompany(): Promise<Credentials>
  createClient(scopes?: string[]): Promise<{ id: string; secret: string }>
  signTokens(claims: SessionClaims): Promise<{ accessToken: string; refreshToken: string }>
}

export interface ServiceSettings {
  databaseUrl: string
  masterKeys: string
  publicUrl: string
}

interface SessionClaims {
  companyId: string
  userId: string
  sessionId: string
  role: string
  permissions: string[]
  issuedAt: Date
  expiresAt: Date
}

export async function openOperator(
  settings: ServiceSettings,
  cleanup: AsyncDisposableStack,
): Promise<Operator> {
  const { databaseUrl, masterKeys, publicUrl } = settings
  const config = loadConfig({ DATABASE_URL: databaseUrl, MASTER_KEYS: masterKeys, PUBLIC_URL: publicUrl })
  const connection = connect({ url: databaseUrl, poolSize: 2 })
  cleanup.defer(() => connection.close())
  await migrate(connection.maintenance)
  const tokens = await openTokens(config, connection)
  return {
    createCompany: () => createLoadTestCompany(connection),
    createClient: (scopes = ['introspect']) =>
      createClient({ db: connection.db, system: realSystem }, { name: 'load test', scopes }),
    signTokens: (claims) => signTokens(tokens, claims, config.accessTokenTtlSeconds),
  }
}

async function openTokens(config: Config, { db }: Connection): Promise<Tokens> {
  const { masterKeys, accessTokenTtlSeconds } = config
  const issuer = issuerOf(config)
  const sealer = createSealer(masterKeys, realSystem.randomBytes)
  const onReloadError = console.error
  const options = { db, sealer, system: realSystem, issuer, accessTokenTtlSeconds, onReloadError }
  await addFirstKey(db, options)
  const [masterKey] = masterKeys
  if (!masterKey) throw new Error('the load test needs a master key')
  const { secret, sign } = refreshTokenOptions(masterKey, issuer)
  const refreshKeys = { sign: createSigner({ key: secret, ...sign }), verifierOf: () => undefined }
  return createTokens({ ring: await openKeyRing(options), refreshKeys, system: realSystem })
}

async function createLoadTestCompany({ db }: Connection): Promise<Credentials> {
  const password = generatePassword(realSystem.randomBytes)
  const email = 'admin@load.example'
  const { companyId } = await createCompany(
    {
      db,
      hasher: await createPasswordHasher(),
      system: realSystem,
      config: { cell: undefined, pagesUrl: '' },
    },
    { name: `Load test ${new Date().toISOString()}`, adminEmail: email, password },
  )
  // A trial would limit events.
  await changeSubscription({ db, system: realSystem }, companyId, { status: 'active' })
  return { companyId, email, password }
}

/** The access token is new; the refresh token is as old as its session. */
async function signTokens(
  tokens: Tokens,
  claims: SessionClaims,
  accessTokenTtlSeconds: number,
): Promise<{ accessToken: string; refreshToken: string }> {
  const { companyId, userId, sessionId, role, permissions } = claims
  const ids = { sub: userId, cid: companyId, sid: sessionId }
  const now = Date.now()
  const iat = Math.floor(now / 1000)
  const times = { auth_time: iat, iat, exp: iat + accessTokenTtlSeconds }
  const access = { ...ids, role, perms: permissions, amr: ['pwd'], ...times }
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
