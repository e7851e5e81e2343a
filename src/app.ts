import type { FastifyInstance } from 'fastify'
import { auditFeedRoutes, auditRoutes } from './audit/routes.ts'
import { guideOf, PLATFORM_GUIDE } from './guide.ts'
import { type Context, type ContextOptions, createContext } from './http/context.ts'
import { createHttpApps, type HttpOptions } from './http/http-app.ts'
import { openapiRoutes } from './http/openapi/document.ts'
import { publicGuard } from './http/operations.ts'
import { pagesPlugin } from './http/pages.ts'
import { ingestRoutes } from './ingest/routes.ts'
import { signatureGuard } from './ingest/signature-guard.ts'
import { watchRoutes } from './ingest/watch-routes.ts'
import { accountLinkRoutes, accountRoutes, ownDataRoutes } from './member/account-routes.ts'
import { invitationRoutes } from './member/invitation-routes.ts'
import { companyRoutes, memberRoutes } from './member/routes.ts'
import { onboardingRoutes } from './onboarding/routes.ts'
import { PAGE_PATHS } from './pages/paths.ts'
import { clientGuard, scopeGuard } from './platform/client-guard.ts'
import { createFeed, type Feed } from './platform/feed.ts'
import { feedRoutes, introspectionRoutes, verifyRoutes } from './platform/routes.ts'
import { policyRoutes, secondFactorRoutes } from './second-factor/routes.ts'
import { clientIpGuard } from './session/client-ip-guard.ts'
import {
  credentialGuard,
  enrolmentGuard,
  feedGuard,
  permissionGuard,
  recentAuthenticationGuard,
  sessionGuard,
} from './session/guards.ts'
import { createSessionLookUp, type SessionLookUp } from './session/look-up.ts'
import { currentSessionRoutes, logoutRoutes, ownSessionRoutes, refreshRoutes } from './session/routes.ts'
import { reauthenticateRoutes, signInRoutes } from './sign-in/routes.ts'
import { signingSecretPlugin, signingSecretRoutes } from './signing-secret/routes.ts'
import { tokenPlugin } from './token/plugin.ts'
import { keySetRoutes } from './token/routes.ts'

/** The trust map: which credential each route requires. Each listener has its own app. */
export async function buildApp(options: ContextOptions & Omit<HttpOptions, 'guide' | 'platformGuide'>) {
  const { config } = options
  const guides = { guide: guideOf(config), platformGuide: PLATFORM_GUIDE }
  const { app, platform } = await createHttpApps({ ...options, ...guides })
  const opened = createContext(options, app.notice)
  await app.register(tokenPlugin, { context: opened })
  const context = { ...opened, tokens: app.tokens }
  const sessions = createSessionLookUp(context)
  await app.register(signingSecretPlugin, { context })

  if (config.hasPages) {
    await app.register(async (open) => {
      await open.register(publicGuard)
      await open.register(pagesPlugin, { paths: PAGE_PATHS, publicUrl: config.publicUrl })
    })
  }
  await app.register(
    async (api) => {
      await api.register(async (open) => {
        await open.register(publicGuard)
        // A service account may name the client that it signs in.
        await open.register(clientIpGuard, { context, sessions })
        await open.register(signInRoutes, { context })
        await open.register(onboardingRoutes, { context })
        await open.register(accountLinkRoutes, { context })
        await open.register(keySetRoutes, { context })
        await open.register(openapiRoutes)
      })
      // The refresh token.
      await api.register(refreshRoutes, { context })
      // A session's access token or cookie. The statement that ends the session checks it.
      await api.register(async (ending) => {
        await ending.register(credentialGuard, { context })
        await ending.register(logoutRoutes, { context })
      })
      // A session, by access token or cookie.
      await api.register(async (signedIn) => {
        await signedIn.register(sessionGuard, { context, sessions })
        await signedIn.register(currentSessionRoutes, { context })
        await signedIn.register(reauthenticateRoutes, { context })
        await signedIn.register(async (proven) => {
          await proven.register(recentAuthenticationGuard, { context })
          await proven.register(secondFactorRoutes, { context })
        })
        // The session also meets the company's second-factor policy.
        await signedIn.register(async (enrolled) => {
          await enrolled.register(enrolmentGuard)
          await enrolled.register(ownSessionRoutes, { context })
          await enrolled.register(accountRoutes, { context })
          await enrolled.register(ownDataRoutes, { context })
          // The user also has a permission. The last one requires recent authentication, too.
          await enrolled.register(async (permitted) => {
            await permitted.register(permissionGuard, { permission: 'webhook-secret:manage' })
            await permitted.register(signingSecretRoutes, { context })
          })
          await enrolled.register(async (permitted) => {
            await permitted.register(permissionGuard, { permission: 'audit:read' })
            await permitted.register(auditRoutes, { context })
          })
          await enrolled.register(async (permitted) => {
            await permitted.register(permissionGuard, { permission: 'events:inspect' })
            await permitted.register(watchRoutes, { context })
          })
          await enrolled.register(async (managing) => {
            await managing.register(permissionGuard, { permission: 'members:manage' })
            await managing.register(recentAuthenticationGuard, { context })
            await managing.register(companyRoutes, { context })
            await managing.register(memberRoutes, { context })
            await managing.register(invitationRoutes, { context })
            await managing.register(policyRoutes, { context })
          })
        })
      })
      // A session with the permission audit:read, or the password of a service account that has it.
      await api.register(async (reading) => {
        await reading.register(feedGuard, { context, sessions })
        await reading.register(auditFeedRoutes, { context })
      })
      // A signature over the raw body.
      await api.register(async (machine) => {
        await machine.register(signatureGuard, { context })
        await machine.register(ingestRoutes, { context })
      })
    },
    { prefix: '/api' },
  )
  const feed = createFeed(context)
  // Readers that wait for an event get a response before the listener closes.
  platform.addHook('preClose', async () => feed.drain())
  await platform.register(platformScopes, { context, sessions, feed })
  return { app, platform }
}

/** The platform's own listener: clients cannot reach it, and no rate limits apply. */
async function platformScopes(
  platform: FastifyInstance,
  { context, sessions, feed }: { context: Context; sessions: SessionLookUp; feed: Feed },
): Promise<void> {
  // No credential: this listener's OpenAPI document.
  await platform.register(async (open) => {
    await open.register(publicGuard)
    await open.register(openapiRoutes)
  })
  // The secret of a platform client with the scope.
  await platform.register(async (clients) => {
    await clients.register(clientGuard, { context })
    await clients.register(async (scoped) => {
      await scoped.register(scopeGuard, { scope: 'introspect' })
      await scoped.register(introspectionRoutes, { context, sessions })
    })
    await clients.register(async (scoped) => {
      await scoped.register(scopeGuard, { scope: 'events:read' })
      await scoped.register(feedRoutes, { context: { feed } })
    })
  })
  // The session of a request that a proxy asks about. It meets the second-factor policy.
  await platform.register(async (forwarded) => {
    await forwarded.register(sessionGuard, { context, sessions, isForwarded: true })
    await forwarded.register(enrolmentGuard)
    await forwarded.register(verifyRoutes)
  })
}
