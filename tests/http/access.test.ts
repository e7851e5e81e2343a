import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import fastify, { type FastifyInstance, type FastifyPluginCallback } from 'fastify'
import fp from 'fastify-plugin'
import { describe, expect, test } from 'vitest'
import { openapiRoutes } from '../../src/http/openapi/document.ts'
import { ingestRoutes } from '../../src/ingest/routes.ts'
import { signatureGuard } from '../../src/ingest/signature-guard.ts'
import { accountLinkRoutes, accountRoutes } from '../../src/member/account-routes.ts'
import { onboardingRoutes } from '../../src/onboarding/routes.ts'
import { clientGuard, scopeGuard } from '../../src/platform/client-guard.ts'
import { introspectionRoutes, verifyRoutes } from '../../src/platform/routes.ts'
import { policyRoutes, secondFactorRoutes } from '../../src/second-factor/routes.ts'
import { credentialGuard, enrolmentGuard, permissionGuard, sessionGuard } from '../../src/session/guards.ts'
import {
  currentSessionRoutes,
  logoutRoutes,
  ownSessionRoutes,
  refreshRoutes,
} from '../../src/session/routes.ts'
import { reauthenticateRoutes, signInRoutes } from '../../src/sign-in/routes.ts'
import { signingSecretRoutes } from '../../src/signing-secret/routes.ts'
import { keySetRoutes } from '../../src/token/routes.ts'
import { openTestService } from '../support/test-service.ts'

/** Every route of an app, with automatic HEAD routes. Fastify announces each new instance. */
type Route = { method: string; url: string }
const routesOf = new Map<FastifyInstance, Route[]>()

function listRoutes(message: unknown): void {
  const { fastify: app } = message as { fastify: FastifyInstance }
  const routes: Route[] = []
  routesOf.set(app, routes)
  app.addHook('onRoute', ({ method, url }) => {
    for (const one of [method].flat()) routes.push({ method: one, url })
  })
}

subscribe('fastify.initialization', listRoutes)
const service = await openTestService({ env: { DASHBOARD_ORIGINS: 'https://app.example.com' } })
unsubscribe('fastify.initialization', listRoutes)

const [routes, platformRoutes] = [service.apps, service.platforms].map(
  ([app]) => (app && routesOf.get(app)) ?? [],
) as [Route[], Route[]]
const pathOf = ({ url }: Route) => url.replace(/:\w+/g, '01890a5d-ac96-774b-bcce-b302099a8057')

const isOfInterface = ({ url }: Route) => url === '*' || url.startsWith('/api/')

test('only the listed routes can be called without a credential (ASVS 3.5.7, 6.3.4, 8.2.1, 8.3.1)', async () => {
  const open: string[] = []
  for (const route of routes.filter(isOfInterface)) {
    const { method } = route
    const { status } = await service.call(pathOf(route).replace(/^\/api/, ''), { method })
    if (status !== 401) open.push(`${method} ${route.url} ${status}`)
  }
  expect(open.sort()).toEqual([
    'GET /api/.well-known/jwks.json 200',
    'GET /api/openapi.json 200',
    'HEAD /api/.well-known/jwks.json 200',
    'HEAD /api/openapi.json 200',
    // CORS passes an OPTIONS request that is not a preflight of a listed origin to the handler of unknown paths.
    'OPTIONS * 404',
    'POST /api/auth/companies/remind 400',
    'POST /api/auth/email/confirm 400',
    'POST /api/auth/email/confirm/preview 400',
    'POST /api/auth/invitations/accept 400',
    'POST /api/auth/invitations/preview 400',
    'POST /api/auth/login 400',
    'POST /api/auth/login/passkey 400',
    // Anyone gets a challenge, because nothing is stored for it.
    'POST /api/auth/login/passkey/options 200',
    'POST /api/auth/login/second-factor 400',
    'POST /api/auth/password/forgot 400',
    'POST /api/auth/password/reset 400',
    'POST /api/auth/password/reset/preview 400',
    'POST /api/auth/register 400',
    'POST /api/auth/undo 400',
    'POST /api/auth/verify-email 400',
    'POST /api/auth/verify-email/resend 400',
  ])
  // All other routes are files, the same for everyone.
  const files = routes.filter((route) => !isOfInterface(route))
  expect(files.length).toBeGreaterThan(10)
  for (const { method, url } of files) {
    expect(method).toMatch(/^(?:GET|HEAD)$/)
    const answers = [
      await fetch(`${service.addresses[0]}${url}`),
      await fetch(`${service.addresses[0]}${url}`),
    ]
    const [one, other] = await Promise.all(answers.map((answer) => answer.text()))
    expect([answers[0]?.status, one === other]).toEqual([200, true])
    expect(answers[0]?.headers.get('set-cookie')).toBeNull()
  }
  // The routes called above include guarded ones, and HEAD routes.
  expect(routes).toContainEqual({ method: 'HEAD', url: '/api/auth/session' })
  expect(routes).toContainEqual({ method: 'POST', url: '/api/events/ingest' })
})

describe('the platform listener', () => {
  test('all platform routes except the document require a credential (ASVS 8.2.1, 8.3.1)', async () => {
    expect(platformRoutes.map(({ method, url }) => `${method} ${url}`).sort()).toEqual([
      'GET /events',
      'GET /openapi.json',
      'GET /verify',
      'HEAD /events',
      'HEAD /openapi.json',
      'HEAD /verify',
      'POST /introspect',
    ])
    for (const route of platformRoutes) {
      const { method, url } = route
      const status = url === '/openapi.json' ? 200 : 401
      expect([route, (await service.ask(pathOf(route), { method })).status]).toEqual([route, status])
    }
  })

  test('the platform and public listeners share no route', async () => {
    for (const route of routes) {
      const { method, url } = route
      const answer = await service.ask(url === '*' ? '/' : pathOf(route), { method })
      expect([route, answer.status]).toEqual([route, 404])
    }
    for (const route of platformRoutes) {
      // Each listener has its own document.
      for (const prefix of route.url === '/openapi.json' ? [''] : ['', '/api']) {
        const { status } = await fetch(`${service.addresses[0]}${prefix}${pathOf(route)}`, route)
        expect([route, prefix, status]).toEqual([route, prefix, 404])
      }
    }
  })
})

describe('plugins (ASVS 8.3.1)', () => {
  const nothing: FastifyPluginCallback = (_app, _options, done) => done()
  const guards = [
    'public-guard',
    'tokens',
    'credential-guard',
    'session-guard',
    'enrolment-guard',
    'recent-authentication-guard',
    'permission-guard',
    'signature-guard',
    'client-guard',
    'scope-guard',
  ].map((name) => fp(nothing, { name }))
  const nothingYet = {} as never
  const rows: [string, (app: FastifyInstance) => unknown, RegExp][] = [
    ['sign-in', (app) => app.register(signInRoutes, nothingYet), /public-guard/],
    ['onboarding', (app) => app.register(onboardingRoutes, nothingYet), /public-guard/],
    ['the key set', (app) => app.register(keySetRoutes, nothingYet), /public-guard/],
    ['the OpenAPI document', (app) => app.register(openapiRoutes), /public-guard/],
    ['refresh', (app) => app.register(refreshRoutes, nothingYet), /tokens/],
    ['logout', (app) => app.register(logoutRoutes, nothingYet), /credential-guard/],
    ["an account's emailed links", (app) => app.register(accountLinkRoutes, nothingYet), /public-guard/],
    ['the current session', (app) => app.register(currentSessionRoutes, nothingYet), /session-guard/],
    ['re-authentication', (app) => app.register(reauthenticateRoutes, nothingYet), /session-guard/],
    [
      'second factors',
      (app) => app.register(secondFactorRoutes, nothingYet),
      /recent-authentication-guard|session-guard/,
    ],
    ['the second-factor policy', (app) => app.register(policyRoutes, nothingYet), /permission-guard/],
    ['user sessions', (app) => app.register(ownSessionRoutes, nothingYet), /enrolment-guard|session-guard/],
    ["a user's account", (app) => app.register(accountRoutes, nothingYet), /enrolment-guard|session-guard/],
    ['signing secret', (app) => app.register(signingSecretRoutes, nothingYet), /permission-guard/],
    ['events', (app) => app.register(ingestRoutes, nothingYet), /signature-guard/],
    ['the second-factor guard', (app) => app.register(enrolmentGuard), /session-guard/],
    ['the permission guard', (app) => app.register(permissionGuard, { permission: 'x' }), /enrolment-guard/],
    ['introspection', (app) => app.register(introspectionRoutes, nothingYet), /client-guard|scope-guard/],
    ['forward authentication', (app) => app.register(verifyRoutes), /enrolment-guard|session-guard/],
    ['the scope guard', (app) => app.register(scopeGuard, { scope: 'introspect' }), /client-guard/],
    ['the client guard', (app) => app.register(clientGuard, nothingYet), /observe/],
    ['the credential guard', (app) => app.register(credentialGuard, nothingYet), /limits/],
    ['the session guard', (app) => app.register(sessionGuard, nothingYet), /limits/],
    ['the signature guard', (app) => app.register(signatureGuard, nothingYet), /limits/],
  ]

  test.for(rows)('the service does not start with %s outside its guard', async ([, register, missing]) => {
    const app = fastify()
    // Guards in a different scope have no effect here.
    app.register(async (scope) => {
      for (const guard of guards) await scope.register(guard)
    })
    await app.after()
    await expect((async () => await register(app))()).rejects.toThrow(missing)
  })
})
