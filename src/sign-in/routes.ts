import { Type } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { NamedCompany } from '../company/handles.ts'
import type { Context } from '../http/context.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { networkOf, receivedOf } from '../limits/client.ts'
import { createKnownSenders, createRefusedCredentials } from '../limits/memory.ts'
import {
  isFromAnotherSite,
  readDeviceCookie,
  readSessionCookie,
  readSessionCookies,
  requireSameSite,
  setDeviceCookie,
  setSessionCookie,
} from '../session/credential.ts'
import { RefreshHeaders, TokenReply } from '../session/schemas.ts'
import { logContextOf, toSessionReply, toTokenReply } from '../session/session.ts'
import type { SignedIn } from './opening.ts'
import { beginProofByPasskey, createReauthentication } from './reauthentication.ts'
import {
  ChallengeModeHeaders,
  ChallengeReply,
  LoginBody,
  LoginHeaders,
  LoginReply,
  PasskeyChallengeReply,
  PasskeyLoginBody,
  ReauthenticateBody,
  SecondFactorBody,
} from './schemas.ts'
import { beginByPasskey, completeSignIn, type SignInRequest, signInByPasskey } from './second-step.ts'
import { signInService } from './service-sign-in.ts'
import { readAttempt, type ServiceLimits, signIn, toOwnCompany } from './sign-in.ts'

const operation = operationsOf('authentication')
const counted = { countedAs: 'sign_ins' } as const

const signingIn: Routes<Context> = async (app, { context }) => {
  const ownLimits = createSignInLimits(app, context)

  app.post(
    '/auth/login',
    {
      config: { ...counted, hasOwnLimits: true, admitsClientIp: true },
      onRequest: ownLimits.countArrival,
      ...operation({
        operationId: 'login',
        summary: 'Sign in with a password',
        description:
          'Returns an access token and a refresh token. With `X-Session-Mode: cookie`, it sets the session cookie instead. An unknown company or user, a wrong password, a disabled user, and a suspended company all return the same 401. Members with a second factor get 401 `second_factor_required` and continue at `/auth/login/second-factor`.',
        headers: LoginHeaders,
        body: LoginBody,
        response: responses(
          { 200: LoginReply },
          'invalid_credentials',
          'second_factor_required',
          'email_not_verified',
          'permission_denied',
          'cross_site_request',
        ),
      }),
    },
    async (request, reply) => {
      const mode = request.headers['x-session-mode'] ?? 'token'
      if (mode === 'cookie') {
        requireSameSite(request, context.config)
        if (isFromAnotherSite(request)) {
          app.notice(
            'cookie sign-in requested from a cross-site page; browsers drop its SameSite=Strict cookie',
            {
              origin: request.headers.origin,
            },
          )
        }
      }
      const received = readAttempt(context, {
        ...request.body,
        mode,
        deviceCookie: readDeviceCookie(request),
        formerCookie: readSessionCookies(request)[0],
        servicePassword: ownLimits.ofServicePassword(request),
        ...receivedOf(request, context),
      })
      if (!received.digest) await ownLimits.countPerson(request)
      const attempt = await toOwnCompany(context, received)
      const signedIn = attempt.digest ? await signInService(context, attempt) : await signIn(context, attempt)
      return answerSignIn(request, reply, signedIn)
    },
  )

  app.post(
    '/auth/login/second-factor',
    {
      config: { ...counted, admitsClientIp: true },
      ...operation({
        operationId: 'completeLogin',
        summary: 'Complete sign-in with a second factor',
        description:
          'Completes a sign-in that returned `second_factor_required`, in the same session mode. A challenge is valid for 5 minutes and 5 tries.',
        headers: ChallengeModeHeaders,
        body: SecondFactorBody,
        response: responses({ 200: LoginReply }, 'invalid_second_factor', 'cross_site_request'),
      }),
    },
    async (request, reply) => {
      const signedIn = await completeSignIn(context, request.body, signInRequestOf(request, context))
      return answerSignIn(request, reply, signedIn)
    },
  )

  app.post(
    '/auth/login/passkey/options',
    operation({
      operationId: 'beginPasskeyLogin',
      summary: 'Get passkey sign-in options',
      description:
        'Needs no company or email, because the passkey identifies the user. The options are valid for 5 minutes and one sign-in.',
      headers: LoginHeaders,
      response: responses({ 200: PasskeyChallengeReply }, 'cross_site_request'),
    }),
    async (request) => {
      const mode = request.headers['x-session-mode'] ?? 'token'
      if (mode === 'cookie') requireSameSite(request, context.config)
      return beginByPasskey(context, mode, context.system.now())
    },
  )

  app.post(
    '/auth/login/passkey',
    {
      config: counted,
      ...operation({
        operationId: 'loginByPasskey',
        summary: 'Sign in with a passkey',
        description:
          'Needs no company, email, or password. A passkey counts as two factors, because the device verifies its user.',
        headers: ChallengeModeHeaders,
        body: PasskeyLoginBody,
        response: responses({ 200: LoginReply }, 'invalid_second_factor', 'cross_site_request'),
      }),
    },
    async (request, reply) => {
      const signedIn = await signInByPasskey(context, request.body, signInRequestOf(request, context))
      return answerSignIn(request, reply, signedIn)
    },
  )
}

const ANY_COMPANY = ''

/** Needs the body. No handle has the form of an ID. */
function senderOf(request: FastifyRequest) {
  const { companyId, company }: NamedCompany = Object(request.body)
  // A server can name any network, so what is known of others there must not show.
  if (request.via) return { network: request.via.companyId, company: request.via.companyId }
  return { network: networkOf(request), company: (companyId ?? company ?? ANY_COMPANY).toLowerCase() }
}

/**
 * The servers of a service account can share a network, so correct passwords do not count toward its limits. Their sessions
 * count by service account and, on a trial, by company. A wrong service password counts as a refused credential, but not for
 * an account, because it cannot be guessed.
 */
function createSignInLimits({ limits }: Pick<FastifyInstance, 'limits'>, { config, system }: Context) {
  const { refusal, anonymous } = limits
  const checks = limits.counter(config.limits.servicePasswordChecks, (request) => {
    const { network, company } = senderOf(request)
    return [company, network]
  })
  const known = createKnownSenders(system)
  const isKnown = (request: FastifyRequest) => known.has(senderOf(request))
  const refused = createRefusedCredentials({ counter: refusal.counter, checks, isKnown })
  const arrivals = new WeakSet<FastifyRequest>()
  return {
    /** Runs before the body is read. Strangers must not exhaust the limit of a network with known servers. */
    async countArrival(request: FastifyRequest): Promise<void> {
      if (!request.via && known.has({ network: networkOf(request), company: ANY_COMPANY })) return
      await anonymous(request)
      arrivals.add(request)
    },
    /** Counts a person's sign-in that `countArrival` skipped, because the network has known servers. */
    async countPerson(request: FastifyRequest): Promise<void> {
      if (!arrivals.has(request)) await anonymous(request)
    },
    ofServicePassword: (request: FastifyRequest): ServiceLimits => ({
      admit: () => refused.admit(request),
      countRefusal: () => refused.count(request, true),
      noteCorrect({ companyId, companyHandle }) {
        const { network } = senderOf(request)
        if (!request.via)
          for (const company of [companyId, companyHandle ?? ANY_COMPANY, ANY_COMPANY])
            known.note({ network, company })
        if (arrivals.delete(request)) anonymous.counter.refund(request)
      },
    }),
  }
}

function signInRequestOf(
  request: FastifyRequest<{ Headers: { 'x-session-mode'?: 'token' | 'cookie' } }>,
  context: Context,
): SignInRequest {
  return {
    ...receivedOf(request, context),
    deviceCookie: readDeviceCookie(request),
    formerCookie: readSessionCookies(request)[0],
    mode: request.headers['x-session-mode'],
    requireSameSite: () => requireSameSite(request, context.config),
  }
}

const reauthentication: Routes<Context> = async (app, { context }) => {
  const { config, counters, system } = context
  const reauthenticate = createReauthentication(context)
  // After the guard has set the session, but before the body is read.
  const onRequest = async (request: FastifyRequest) => {
    const { companyId, sessionId } = request.session
    await counters.consume(config.limits.reauthentications, [companyId, sessionId], { now: system.now() })
  }

  app.post(
    '/auth/reauthenticate',
    {
      onRequest,
      ...operation({
        operationId: 'reauthenticate',
        summary: 'Re-authenticate the current session',
        description:
          'Start with the password. Members with a second factor get a challenge, and complete it with a second request to this path. When complete, a session with a cookie gets 204 and a new cookie, and the previous one stops working. With an access token, the response has a new pair of tokens, as from a refresh. Send an `Idempotency-Key`, and the same one when you retry. A wrong password, code, or passkey returns 400 at `/password`, `/code`, or `/response`, because 401 means that the session has ended. An invalid or expired challenge returns 400 at `/challenge`. By default, ten wrong attempts within 15 minutes end the session (`reauthentication_failed`).',
        tags: ['session'],
        headers: RefreshHeaders,
        body: ReauthenticateBody,
        response: responses(
          {
            200: Type.Union([TokenReply, ChallengeReply], {
              description: '`TokenReply` when done, `ChallengeReply` if a second factor is required',
            }),
            204: Type.Null(),
          },
          'idempotency_conflict',
        ),
      }),
    },
    async (request, reply) => {
      const { session, body } = request
      const proven = await reauthenticate(session, body, {
        cookie: session.kind === 'cookie' ? readSessionCookie(request) : undefined,
        idempotencyKey: request.headers['idempotency-key'],
        ...receivedOf(request, context),
      })
      if ('challenge' in proven) return proven
      if ('cookie' in proven) {
        setSessionCookie(reply, proven.cookie)
        reply.code(204)
        return null
      }
      request.limit = proven.limit
      return toTokenReply(proven.session, proven.tokens)
    },
  )

  app.post(
    '/auth/reauthenticate/passkey/options',
    {
      onRequest,
      ...operation({
        operationId: 'beginReauthenticationByPasskey',
        summary: 'Get passkey re-authentication options',
        description:
          'Starts a re-authentication without the password. Complete it at `/auth/reauthenticate`.',
        tags: ['session'],
        response: responses({ 200: PasskeyChallengeReply }, 'factor_required'),
      }),
    },
    async (request) => beginProofByPasskey(context, request.session, receivedOf(request, context)),
  )
}

export const signInRoutes = scopedRoutes(signingIn, 'sign-in-routes', ['public-guard', 'notices'])
export const reauthenticateRoutes = scopedRoutes(reauthentication, 'reauthenticate-routes', ['session-guard'])

function answerSignIn(request: FastifyRequest, reply: FastifyReply, { session, credential }: SignedIn) {
  Object.assign(request.logContext, logContextOf(session))
  if ('tokens' in credential) return toTokenReply(session, credential.tokens)
  setSessionCookie(reply, credential.cookie)
  if (credential.device !== null) setDeviceCookie(reply, credential.device)
  return toSessionReply(session)
}
