import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { responses } from '../http/responses.ts'
import { clientOf } from '../limits/client.ts'
import { readDeviceCookie, readSessionCookies, requireSameSite } from '../session/cookie.ts'
import { answerSignIn } from './login-answer.ts'
import {
  ChallengeModeHeaders,
  LoginHeaders,
  LoginReply,
  PasskeyChallengeReply,
  PasskeyLoginBody,
  SecondFactorBody,
} from './schemas.ts'
import {
  beginByPasskey,
  completeSignIn,
  type SignInContext,
  type SignInRequest,
  signInByPasskey,
} from './second-step.ts'

interface Options {
  context: SignInContext
}

const tags = ['authentication']
const config = { countedAs: 'sign_ins' } as const

/** The second step of a sign-in, and sign-in by passkey; behind the public guard. */
const routes: FastifyPluginAsyncTypebox<Options> = async (app, { context }) => {
  app.post(
    '/auth/login/second-factor',
    {
      config,
      schema: {
        operationId: 'completeLogin',
        summary: 'Sign in: the second factor',
        description:
          'Completes a sign-in that was answered `second_factor_required`, in the mode in which it began. A challenge is good for 5 minutes and 5 tries.',
        tags,
        headers: ChallengeModeHeaders,
        body: SecondFactorBody,
        response: responses({ 200: LoginReply }, 'invalid_second_factor', 'cross_site_request'),
      },
    },
    async (request, reply) =>
      answerSignIn(request, reply, await completeSignIn(context, request.body, receivedOf(context, request))),
  )

  app.post(
    '/auth/login/passkey/options',
    {
      schema: {
        operationId: 'beginPasskeyLogin',
        summary: 'Sign in by passkey: what the browser asks for it with',
        description: 'It names nobody: the passkey says who signs in. Good for 5 minutes and one sign-in.',
        tags,
        headers: LoginHeaders,
        response: responses({ 200: PasskeyChallengeReply }, 'cross_site_request'),
      },
    },
    async (request) => {
      const mode = request.headers['x-session-mode'] ?? 'token'
      if (mode === 'cookie') requireSameSite(request, context.config)
      return beginByPasskey(context, mode, context.system.now())
    },
  )

  app.post(
    '/auth/login/passkey',
    {
      config,
      schema: {
        operationId: 'loginByPasskey',
        summary: 'Sign in by passkey',
        description:
          'Without company, e-mail and password. It counts as both factors, since the device has verified its user.',
        tags,
        headers: ChallengeModeHeaders,
        body: PasskeyLoginBody,
        response: responses({ 200: LoginReply }, 'invalid_second_factor', 'cross_site_request'),
      },
    },
    async (request, reply) =>
      answerSignIn(
        request,
        reply,
        await signInByPasskey(context, request.body, receivedOf(context, request)),
      ),
  )
}

function receivedOf(
  { config, system }: SignInContext,
  request: FastifyRequest<{ Headers: { 'x-session-mode'?: 'token' | 'cookie' } }>,
): SignInRequest {
  return {
    client: clientOf(request),
    device: readDeviceCookie(request),
    formerCookie: readSessionCookies(request)[0],
    mode: request.headers['x-session-mode'],
    requireSameSite: () => requireSameSite(request, config),
    now: system.now(),
  }
}

export const secondFactorSignInRoutes = fp(routes, {
  name: 'second-factor-sign-in-routes',
  dependencies: ['public-guard'],
  encapsulate: true,
})
