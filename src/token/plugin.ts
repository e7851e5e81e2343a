import fastifyJwt from '@fastify/jwt'
import { createVerifier } from 'fast-jwt'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Gauge, type Registry } from 'prom-client'
import type { Config, MasterKey } from '../config/config.ts'
import { deriveKey, type Sealer } from '../crypto/sealing.ts'
import type { Executor } from '../database/connect.ts'
import type { System } from '../system.ts'
import { issuerOf } from './claims.ts'
import { openKeyRing } from './key-ring.ts'
import { createTokens, type RefreshKeys, type Tokens } from './service.ts'

declare module 'fastify' {
  interface FastifyInstance {
    tokens: Tokens
  }
}

interface Options {
  context: { config: Config; db: Executor; sealer: Sealer; system: System; registry: Registry }
}

/** Decorates the app with `tokens`: @fastify/jwt for refresh tokens, the key ring for access tokens. */
async function plugin(app: FastifyInstance, { context }: Options): Promise<void> {
  const { config, db, sealer, system, registry } = context
  const issuer = issuerOf(config)
  const ring = await openKeyRing({
    db,
    sealer,
    system,
    issuer,
    accessTokenTtlSeconds: config.accessTokenTtlSeconds,
    onReloadError: (error) => app.log.warn({ err: error }, 'the signing keys could not be read'),
  })
  new Gauge({
    name: 'gatehouse_signing_key_age_seconds',
    help: 'Time since the key was made that signs access tokens',
    registers: [registry],
    // Of the newest key: other workers read it only when they next use the keys.
    aggregator: 'min',
    collect() {
      const now = system.now()
      this.set((now - (ring.knownSigning(now)?.createdAt ?? Number.NaN)) / 1000)
    },
  })
  app.decorate('tokens', createTokens({ ring, refreshKeys: await openRefreshKeys(app, config), system }))
}

async function openRefreshKeys(app: FastifyInstance, config: Config): Promise<RefreshKeys> {
  const [current, ...former] = config.masterKeys.map((key) => refreshTokenOptions(key, issuerOf(config)))
  if (!current) throw new Error('tokens need a master key')
  let jwt: FastifyInstance['jwt'] | undefined
  // In a scope of its own, so that no route can verify a token without the checks of service.ts.
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
  return { sign: (claims) => sign(claims), verifierOf: (header) => verifiers.get(header) }
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
