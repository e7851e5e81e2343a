import fastifyJwt from '@fastify/jwt'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { LruMap } from 'toad-cache'
import type { Config } from '../config.ts'
import { deriveKey, type Sealer } from '../crypto/sealing.ts'
import type { Executor } from '../database/connect.ts'
import { newId, type System } from '../system.ts'
import {
  type AccessClaims,
  checkTimes,
  invalidToken,
  type RefreshClaims,
  readAccessClaims,
  readRefreshClaims,
  refreshTokenId,
} from './claims.ts'
import { headerPartOf } from './compact.ts'
import { type KeyRing, openKeyRing } from './key-ring.ts'

export interface Tokens {
  /** Signs an access token (RFC 9068 in spirit: `at+jwt`, ES256). Times are Unix seconds. */
  signAccess(claims: Omit<AccessClaims, 'iss' | 'aud' | 'jti'>, now: number): Promise<string>
  /** @throws Problem invalid_token or token_expired */
  verifyAccess(token: string, now: number): Promise<VerifiedClaims>
  /** Signs a refresh token. Equal claims give equal bytes, which is how a lost answer can be repeated. */
  signRefresh(claims: Omit<RefreshClaims, 'iss' | 'aud' | 'jti'>): string
  /** @throws Problem invalid_token or token_expired */
  verifyRefresh(token: string, now: number): RefreshClaims
  publishedKeys: KeyRing['published']
}

/** Whose session an access token is of, and for how long. What they may do is the database's to say. */
export type VerifiedClaims = Pick<AccessClaims, 'sub' | 'cid' | 'sid' | 'iat' | 'exp'>

declare module 'fastify' {
  interface FastifyInstance {
    tokens: Tokens
  }
}

/** Access tokens whose signature is remembered, about 1 KB each. */
const MAX_VERIFIED = 10_000
const REFRESH_AUDIENCE = 'gatehouse/refresh'

interface Options {
  config: Config
  db: Executor
  sealer: Sealer
  system: System
}

/**
 * Issues and verifies both kinds of token. A token's first part must be, to the byte, what we put there:
 * so algorithm, type and key are pinned before anything of it is parsed, and `crit`, `jwk`, `jku` and the
 * like have no place to stand (RFC 8725, sections 3.1 and 3.11).
 */
async function plugin(app: FastifyInstance, { config, db, sealer, system }: Options): Promise<void> {
  const issuer = `${config.publicUrl}/api`
  const { accessTokenTtlSeconds } = config
  const ring = await openKeyRing({
    db,
    sealer,
    system,
    issuer,
    accessTokenTtlSeconds,
    onReloadError: (error) => app.log.warn({ err: error }, 'the signing keys could not be read'),
  })

  // Refresh tokens are read by this service alone: one symmetric key a master key, each in a scope of its own.
  const refreshKeys = new Map<string, FastifyInstance['jwt']>()
  for (const { id, key } of config.masterKeys) {
    await app.register(async (scope) => {
      await scope.register(fastifyJwt, {
        secret: deriveKey(key, 'refresh tokens'),
        sign: {
          algorithm: 'HS256',
          header: { alg: 'HS256', typ: 'rt+jwt' },
          kid: id,
          iss: issuer,
          aud: REFRESH_AUDIENCE,
        },
        verify: {
          algorithms: ['HS256'],
          checkTyp: 'rt+jwt',
          allowedIss: issuer,
          allowedAud: REFRESH_AUDIENCE,
          // Our own clock decides, with the other claims.
          ignoreExpiration: true,
          ignoreNotBefore: true,
          cache: false,
        },
      })
      const header = Buffer.from(JSON.stringify({ alg: 'HS256', typ: 'rt+jwt', kid: id })).toString(
        'base64url',
      )
      refreshKeys.set(header, scope.jwt)
    })
  }
  const [currentRefreshKey] = refreshKeys.values()
  if (!currentRefreshKey) throw new Error('tokens need a master key')

  // By exact token. Saves checking the same signature again and nothing else: its key and its times are
  // looked at each time.
  const verified = new LruMap<VerifiedClaims>(MAX_VERIFIED)

  app.decorate('tokens', {
    async signAccess(claims, now) {
      const key = await ring.signing(now)
      return key.sign({ ...claims, jti: newId(system) })
    },
    async verifyAccess(token, now) {
      const known = verified.get(token)
      const header = known ? token.slice(0, token.indexOf('.')) : headerOf(token)
      const key = await ring.byHeader(header, now)
      if (!key) throw invalidToken()
      const claims = known ?? toVerified(readAccessClaims(payloadOf(() => key.verify(token))))
      checkTimes('access', claims, now)
      // All that it signed has expired, so this is no token of ours.
      if (key.isRetired(now)) throw invalidToken()
      if (!known) verified.set(token, claims)
      return claims
    },
    signRefresh: (claims) => currentRefreshKey.sign({ ...claims, jti: refreshTokenId(claims) }),
    verifyRefresh(token, now) {
      const key = refreshKeys.get(headerOf(token))
      if (!key) throw invalidToken()
      const claims = readRefreshClaims(payloadOf(() => key.verify(token)))
      checkTimes('refresh', claims, now)
      return claims
    },
    publishedKeys: ring.published,
  } satisfies Tokens)
}

function toVerified({ sub, cid, sid, iat, exp }: AccessClaims): VerifiedClaims {
  return { sub, cid, sid, iat, exp }
}

function headerOf(token: string): string {
  const header = headerPartOf(token)
  if (header === null) throw invalidToken()
  return header
}

/** Every failure of the library to verify is one and the same answer. */
function payloadOf(verify: () => unknown): unknown {
  try {
    return verify()
  } catch {
    throw invalidToken()
  }
}

export const tokenPlugin = fp(plugin, { name: 'tokens' })
