import type { Server } from 'node:http'
import fastifyCookie from '@fastify/cookie'
import { Type, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastify, { LogController } from 'fastify'
import type { DestinationStream } from 'pino'
import type { Registry } from 'prom-client'
import type { Config } from './config.ts'
import type { PasswordHasher } from './crypto/password.ts'
import { createSealer } from './crypto/sealing.ts'
import type { Connection } from './database/connect.ts'
import { createCounters } from './database/counters.ts'
import { bodyPlugin, NoBody } from './http/body.ts'
import { framingPlugin } from './http/framing.ts'
import { headersPlugin } from './http/headers.ts'
import { limitsPlugin } from './http/limits.ts'
import { createListener } from './http/listener.ts'
import { logSettings, observePlugin } from './http/observe.ts'
import { openapiPlugin, openapiRoutes } from './http/openapi.ts'
import { answerRouterError, problemsPlugin } from './http/problems.ts'
import { ingestRoutes } from './ingest/routes.ts'
import { createIngest } from './ingest/service.ts'
import { signatureGuard } from './ingest/signature-guard.ts'
import { mailPlugin } from './mail/plugin.ts'
import { createLetters } from './onboarding/letters.ts'
import { onboardingRoutes } from './onboarding/routes.ts'
import { createOnboarding } from './onboarding/service.ts'
import { createAccount } from './session/account.ts'
import { permissionGuard } from './session/permission-guard.ts'
import { ownSessionRoutes, signInRoutes } from './session/routes.ts'
import { createSessions } from './session/service.ts'
import { sessionGuard } from './session/session-guard.ts'
import { signingSecretRoutes } from './signing-secret/routes.ts'
import { createSigningSecrets } from './signing-secret/service.ts'
import { newId, type System } from './system.ts'
import { tokenPlugin } from './token/plugin.ts'
import { keySetRoutes } from './token/routes.ts'

interface AppOptions {
  config: Config
  db: Connection['db']
  system: System
  hasher: PasswordHasher
  registry: Registry
  /** Where log lines go; standard output by default. */
  logStream?: DestinationStream
}

/** Builds the service. What stands behind which credential is in the last block: the trust map. */
export async function buildApp({ config, db, system, hasher, registry, logStream }: AppOptions) {
  const app = fastify({
    logger: logSettings(config.logLevel, logStream),
    logController: new LogController({ disableRequestLogging: true }),
    // A logger of each request's own would cost more than its one line, which names the request itself.
    childLoggerFactory: (logger) => logger,
    genReqId: () => newId(system),
    trustProxy: config.trustProxy,
    bodyLimit: 16 * 1024,
    serverFactory: (handle): Server => createListener(handle, { system, log: () => app.log }),
    // The listener answers what its parser refuses, in place of Fastify.
    clientErrorHandler: () => {},
    frameworkErrors: answerRouterError,
    forceCloseConnections: 'idle',
    // What arrives while draining is answered as ever, and its connection closed.
    return503OnClosing: false,
    // Nothing is coerced, dropped or filled in.
    ajv: {
      customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false, allErrors: false },
    },
  }).withTypeProvider<TypeBoxTypeProvider>()

  await app.register(observePlugin, { registry })
  await app.register(limitsPlugin, { limits: config.limits })
  await app.register(headersPlugin, { dashboardOrigins: config.dashboardOrigins })
  await app.register(framingPlugin)
  await app.register(problemsPlugin)
  await app.register(bodyPlugin)
  // Only to set cookies: which of those that come counts is decided in session/cookie.ts.
  await app.register(fastifyCookie, { hook: false })
  await app.register(openapiPlugin, { publicUrl: config.publicUrl })
  app.addHook('onRoute', ({ schema, method }) => {
    // What a route does not name is refused, as unknown fields are: parameters, and a body.
    if (!schema) return
    schema.querystring ??= Type.Object({}, { additionalProperties: false })
    if (method !== 'GET' && method !== 'HEAD') schema.body ??= NoBody
  })

  const sealer = createSealer(config.masterKeys, system.randomBytes)
  await app.register(tokenPlugin, { config, db, sealer, system })
  const { tokens } = app
  const counters = createCounters(db)
  const sessions = createSessions({ db, config, system, tokens, hasher, counters })
  const signingSecrets = createSigningSecrets({
    db,
    sealer,
    system,
    counters,
    limit: config.limits.regenerate,
  })
  const account = createAccount({ db, limits: config.limits, system, hasher, counters })
  const onboarding = createOnboarding({ db, config, system, hasher, counters })
  await app.register(mailPlugin, {
    config,
    db,
    system,
    registry,
    compose: createLetters({ db, config, system, counters }),
  })
  const ingest = createIngest({ db, poolSize: config.databasePoolSize })

  await app.register(
    async (api) => {
      // Public: no credential, or the refresh token.
      await api.register(signInRoutes, { config, sessions, system })
      await api.register(async (open) => {
        open.addHook('onRequest', open.limits.anonymous)
        await open.register(onboardingRoutes, { onboarding, system })
        await open.register(keySetRoutes, { system })
        await open.register(openapiRoutes)
      })
      // Session: access token or cookie.
      await api.register(async (session) => {
        await session.register(sessionGuard, { config, sessions, system })
        await session.register(ownSessionRoutes, { sessions, account, system })
        // Admin: the same, with a permission.
        await session.register(async (admin) => {
          await admin.register(permissionGuard, { permission: 'webhook-secret:manage' })
          await admin.register(signingSecretRoutes, { signingSecrets, system })
        })
      })
      // Machine: a signature over the raw body.
      await api.register(async (machine) => {
        await machine.register(signatureGuard, { config, signingSecrets, system })
        await machine.register(ingestRoutes, { ingest, system })
      })
    },
    { prefix: '/api' },
  )
  return app
}
