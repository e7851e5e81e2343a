import fastifyJwt from '@fastify/jwt'
import { createVerifier } from 'fast-jwt'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Gauge, type Registry } from 'prom-client'
import { LruMap } from 'toad-cache'
import type { Config, MasterKey } from '../config/config.ts'
import { deriveKey, type Sealer } from '../crypto/sealing.ts'
import type { Executor } from '../database/connect.ts'
import { newId, type System } from '../system.ts'
import {
  type AccessClaims,
  checkTimes,
  invalidToken,
  issuerOf,
  type RefreshClaims,
  readRefreshClaims,
} from './claims.ts'
import { headerPartOf, type Key, type KeyRing, openKeyRing } from './keys.ts'

/** The look-up of the session must confirm that the key is not revoked. */
export type VerifiedClaims = Pick<
  AccessClaims,
  'sub' | 'cid' | 'sid' | 'iat' | 'nbf' | 'exp' | 'auth_time'
> & {
  keyId: string
}

const MAX_VERIFIED = 10_000

export type Tokens = ReturnType<typeof createTokens>

interface Parts {
  ring: KeyRing
  refreshKeys: Awaited<ReturnType<typeof openRefreshKeys>>
  system: System
}

/** A header must be, byte for byte, one that this service writes. Nothing is parsed first (RFC 8725, sections 3.1 and 3.11). */
export function createTokens({ ring, refreshKeys, system }: Parts) {
  // By exact token. Saves only the verification of the signature: key and times are checked on each use.
  const verified = new LruMap<VerifiedClaims>(MAX_VERIFIED)
  return {
    /** Claims are in Unix seconds (RFC 9068), `now` is in ms. */
    async signAccess(
      claims: Omit<AccessClaims, 'iss' | 'aud' | 'jti' | 'nbf'>,
      now: number,
    ): Promise<string> {
      const key = await ring.signing(now)
      return key.sign({ ...claims, jti: newId(system) })
    },
    /** @throws Problem invalid_token or token_expired */
    async verifyAccess(token: string, now: number): Promise<VerifiedClaims> {
      const known = verified.get(token)
      const header = known ? token.slice(0, token.indexOf('.')) : headerOf(token)
      const key = await ring.byHeader(header, now)
      if (!key) throw invalidToken()
      const claims = known ?? genuine(() => toVerified(key.verify(token), key))
      checkTimes('access', claims, now)
      // All genuine tokens of a retired key have expired.
      if (key.isRetired(now)) throw invalidToken()
      if (!known) verified.set(token, claims)
      return claims
    },
    /** Equal claims produce equal bytes, so that a lost response can be repeated. */
    signRefresh: (claims: Omit<RefreshClaims, 'iss' | 'aud' | 'jti'>) =>
      refreshKeys.sign({ ...claims, jti: refreshTokenId(claims) }),
    /** @throws Problem invalid_token or token_expired */
    verifyRefresh(token: string, now: number): RefreshClaims {
      const verify = refreshKeys.verifierOf(headerOf(token))
      if (!verify) throw invalidToken()
      const claims = readRefreshClaims(genuine(() => verify(token)))
      if (claims.jti !== refreshTokenId(claims)) throw invalidToken()
      checkTimes('refresh', claims, now)
      return claims
    },
    publishedKeys: ring.published,
    /** For a verified token without a session, whose key may be revoked. */
    reloadKeys: ring.reload,
  }
}

function refreshTokenId({ sid, gen }: Pick<RefreshClaims, 'sid' | 'gen'>): string {
  return `${sid}.${gen}`
}

function toVerified(
  { sub, cid, sid, iat, nbf, exp, auth_time }: AccessClaims,
  { keyId }: Key,
): VerifiedClaims {
  const optional = { ...(nbf !== undefined && { nbf }), ...(auth_time !== undefined && { auth_time }) }
  return { sub, cid, sid, iat, exp, keyId, ...optional }
}

function headerOf(token: string): string {
  const header = headerPartOf(token)
  if (header === null) throw invalidToken()
  return header
}

function genuine<Payload>(verify: () => Payload): Payload {
  try {
    return verify()
  } catch {
    throw invalidToken()
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    tokens: Tokens
  }
}

interface Options {
  context: { config: Config; db: Executor; sealer: Sealer; system: System; registry: Registry }
}

async function plugin(app: FastifyInstance, { context }: Options): Promise<void> {
  const { config, db, sealer, system, registry } = context
  const issuer = issuerOf(config)
  const ring = await openKeyRing({
    db,
    sealer,
    system,
    issuer,
    accessTokenTtlSeconds: config.accessTokenTtlSeconds,
    onReloadError: (error) => app.log.warn({ err: error }, 'failed to read the signing keys'),
  })
  new Gauge({
    name: 'gatehouse_signing_key_age_seconds',
    help: 'Age of the key that signs access tokens',
    registers: [registry],
    // Other workers see the newest key only when they next use the keys.
    aggregator: 'min',
    collect() {
      const now = system.now()
      this.set((now - (ring.knownSigning(now)?.createdAt ?? Number.NaN)) / 1000)
    },
  })
  app.decorate('tokens', createTokens({ ring, refreshKeys: await openRefreshKeys(app, config), system }))
}

async function openRefreshKeys(app: FastifyInstance, config: Config) {
  const [current, ...former] = config.masterKeys.map((key) => refreshTokenOptions(key, issuerOf(config)))
  if (!current) throw new Error('tokens need a master key')
  let jwt: FastifyInstance['jwt'] | undefined
  // In its own scope, so that no route can verify a token without the checks of `createTokens`.
  await app.register(async (scope) => {
    const { secret, sign, verify } = current
    await scope.register(fastifyJwt, { secret, sign, verify })
    jwt = scope.jwt
  })
  if (!jwt) throw new Error('@fastify/jwt was not registered')
  const { sign, verify } = jwt
  const verifiers = new Map<string, (token: string) => unknown>([
    [current.header, (token) => verify(token)],
    ...former.map((key) => [key.header, createVerifier({ ...key.verify, key: key.secret })] as const),
  ])
  return {
    sign: (claims: Record<string, unknown>) => sign(claims),
    verifierOf: (header: string) => verifiers.get(header),
  }
}

const REFRESH_AUDIENCE = 'gatehouse/refresh'

export function refreshTokenOptions({ id, key }: MasterKey, issuer: string) {
  return {
    secret: deriveKey(key, 'refresh tokens'),
    header: Buffer.from(JSON.stringify({ alg: 'HS256', typ: 'rt+jwt', kid: id })).toString('base64url'),
    sign: {
      algorithm: 'HS256' as const,
      header: { alg: 'HS256', typ: 'rt+jwt' },
      kid: id,
      iss: issuer,
      aud: REFRESH_AUDIENCE,
    },
    verify: {
      algorithms: ['HS256' as const],
      checkTyp: 'rt+jwt',
      allowedIss: issuer,
      allowedAud: REFRESH_AUDIENCE,
      // claims.ts checks the times, by our own clock.
      ignoreExpiration: true,
      ignoreNotBefore: true,
      cache: false,
    },
  }
}

export const tokenPlugin = fp(plugin, { name: 'tokens' })
