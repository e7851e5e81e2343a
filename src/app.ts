import type { DestinationStream } from 'pino'
import type { Registry } from 'prom-client'
import { AUDIT_GUIDE } from './audit/actions.ts'
import { auditRoutes } from './audit/routes.ts'
import { RIGHTS_GUIDE } from './company/guide.ts'
import type { Config } from './config.ts'
import { createIsBreached } from './crypto/breached-passwords.ts'
import { createDigests } from './crypto/digests.ts'
import { createSealer } from './crypto/sealing.ts'
import type { Connection } from './database/connect.ts'
import { createHttpApp } from './http/http-app.ts'
import { createBatchMeasure } from './http/metrics.ts'
import { openapiRoutes } from './http/openapi-document.ts'
import { pagesPlugin } from './http/pages.ts'
import { publicGuard } from './http/public-guard.ts'
import { SIGNATURE_GUIDE } from './ingest/guide.ts'
import { ingestRoutes } from './ingest/routes.ts'
import { createIngest } from './ingest/service.ts'
import { signatureGuard } from './ingest/signature-guard.ts'
import { createCounters } from './limits/counters.ts'
import type { LimitedHasher } from './limits/hashing.ts'
import { accountRoutes } from './member/account-routes.ts'
import { confirmRoutes } from './member/confirm-routes.ts'
import { invitationRoutes } from './member/invitation-routes.ts'
import { memberRoutes } from './member/routes.ts'
import { onboardingRoutes } from './onboarding/routes.ts'
import { policyRoutes } from './second-factor/policy-routes.ts'
import { secondFactorRoutes } from './second-factor/routes.ts'
import { credentialGuard } from './session/credential-guard.ts'
import { currentSessionRoutes } from './session/current-session-routes.ts'
import { enrolmentGuard } from './session/enrolment-guard.ts'
import { createLogout } from './session/logout.ts'
import { logoutRoutes } from './session/logout-routes.ts'
import { createSessionLookUp } from './session/look-up.ts'
import { createOwnSessions } from './session/own-sessions.ts'
import { permissionGuard } from './session/permission-guard.ts'
import { recentProofGuard } from './session/recent-proof-guard.ts'
import { refreshRoutes } from './session/refresh-routes.ts'
import { createRefresh } from './session/rotation.ts'
import { ownSessionRoutes } from './session/routes.ts'
import { sessionGuard } from './session/session-guard.ts'
import { createAttempts } from './sign-in/guesses.ts'
import { createKnownClients } from './sign-in/known-clients.ts'
import { loginRoutes } from './sign-in/login-routes.ts'
import { reauthenticateRoutes } from './sign-in/reauthenticate-routes.ts'
import { secondFactorSignInRoutes } from './sign-in/second-step-routes.ts'
import { createSignIn } from './sign-in/sign-in.ts'
import { createRefusalBook } from './signing-secret/refusals.ts'
import { signingSecretRoutes } from './signing-secret/routes.ts'
import { createSigningSecrets } from './signing-secret/service.ts'
import type { System } from './system.ts'
import { tokenGuide } from './token/guide.ts'
import { tokenPlugin } from './token/plugin.ts'
import { keySetRoutes } from './token/routes.ts'

interface AppOptions {
  config: Config
  db: Connection['db']
  system: System
  hasher: LimitedHasher
  registry: Registry
  /** Standard output by default. */
  logStream?: DestinationStream
}

/** Builds the service. The last block is the trust map: which credential each route requires. */
export async function buildApp(options: AppOptions) {
  const { config, db, system, hasher, registry } = options
  const chapters = [tokenGuide(config), SIGNATURE_GUIDE, RIGHTS_GUIDE, AUDIT_GUIDE]
  const app = await createHttpApp({ ...options, chapters })
  const sealer = createSealer(config.masterKeys, system.randomBytes)
  await app.register(tokenPlugin, { config, db, sealer, system, registry })

  const measureBatch = createBatchMeasure(registry)
  const counters = createCounters(db, measureBatch)
  const knownClients = createKnownClients({ config, system })
  const isBreached = createIsBreached(config.breachedPasswordsUrl, (cause) =>
    app.notice('the service of breached passwords gives no answer, so passwords pass without it', { cause }),
  )
  const context = {
    config,
    db,
    system,
    sealer,
    hasher,
    counters,
    countAttempt: createAttempts({ counters, config }),
    knownClients,
    measureBatch,
    isBreached,
    digests: createDigests(config.masterKeys),
    tokens: app.tokens,
  }
  const signingSecrets = createSigningSecrets(context)
  const refusals = createRefusalBook({
    ...context,
    onFailure: (cause) => app.notice('refusals of events could not be written', { cause }),
  })
  app.addHook('onClose', refusals.flush)

  // No credential: files that are the same for everybody.
  if (config.hasPages) {
    await app.register(async (open) => {
      await open.register(publicGuard)
      await open.register(pagesPlugin)
    })
  }
  await app.register(
    async (api) => {
      await api.register(async (open) => {
        await open.register(publicGuard)
        await open.register(loginRoutes, { config, system, hasher, signIn: createSignIn(context) })
        await open.register(secondFactorSignInRoutes, { context })
        await open.register(onboardingRoutes, { context })
        await open.register(confirmRoutes, { context })
        await open.register(keySetRoutes, { system })
        await open.register(openapiRoutes)
      })
      // The refresh token.
      await api.register(refreshRoutes, { system, refresh: createRefresh(context) })
      // A session's access token or cookie. The statement that ends the session checks it.
      await api.register(async (ending) => {
        await ending.register(credentialGuard, { config, system })
        await ending.register(logoutRoutes, { system, logOut: createLogout(context) })
      })
      // A session, by access token or cookie.
      await api.register(async (signedIn) => {
        await signedIn.register(sessionGuard, { config, system, sessions: createSessionLookUp(context) })
        await signedIn.register(currentSessionRoutes)
        await signedIn.register(reauthenticateRoutes, { context })
        await signedIn.register(async (proven) => {
          await proven.register(recentProofGuard, { system })
          await proven.register(secondFactorRoutes, { context })
        })
        // A session that meets the policy of its company on second factors.
        await signedIn.register(async (enrolled) => {
          await enrolled.register(enrolmentGuard)
          await enrolled.register(ownSessionRoutes, {
            system,
            ownSessions: createOwnSessions(context),
          })
          await enrolled.register(accountRoutes, { context })
          // And whose user has a permission; the last kind also asks for a recent proof.
          await enrolled.register(async (permitted) => {
            await permitted.register(permissionGuard, { permission: 'webhook-secret:manage' })
            await permitted.register(signingSecretRoutes, { signingSecrets, refusals, system })
          })
          await enrolled.register(async (permitted) => {
            await permitted.register(permissionGuard, { permission: 'audit:read' })
            await permitted.register(auditRoutes, { db, system })
          })
          await enrolled.register(async (managing) => {
            await managing.register(permissionGuard, { permission: 'members:manage' })
            await managing.register(recentProofGuard, { system })
            await managing.register(memberRoutes, { context })
            await managing.register(invitationRoutes, { context })
            await managing.register(policyRoutes, { context })
          })
        })
      })
      // A signature over the raw body.
      await api.register(async (machine) => {
        await machine.register(signatureGuard, { config, system, signingSecrets, refusals })
        await machine.register(ingestRoutes, { system, ingest: createIngest({ ...context, registry }) })
      })
    },
    { prefix: '/api' },
  )
  return app
}
