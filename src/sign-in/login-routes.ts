import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { responses } from '../http/responses.ts'
import { clientOf, networkOf } from '../limits/client.ts'
import type { LimitedHasher } from '../limits/hashing.ts'
import {
  isFromAnotherSite,
  readDeviceCookie,
  readSessionCookies,
  requireSameSite,
} from '../session/cookie.ts'
import type { System } from '../system.ts'
import { answerSignIn } from './login-answer.ts'
import { LoginBody, LoginHeaders, LoginReply } from './schemas.ts'
import type { SignIn } from './sign-in.ts'

interface Options {
  config: Config
  system: System
  hasher: Pick<LimitedHasher, 'requireShare'>
  signIn: SignIn
}

/** Sign-in; behind the public guard. */
const routes: FastifyPluginAsyncTypebox<Options> = async (app, { config, system, hasher, signIn }) => {
  app.post(
    '/auth/login',
    {
      config: { countedAs: 'sign_ins' },
      // Before the body is read. A browser with a device cookie is checked later, when it is known whether others of
      // its network can keep it out.
      onRequest: async (request) => {
        if (readDeviceCookie(request) === undefined) hasher.requireShare(networkOf(request))
      },
      schema: {
        operationId: 'login',
        summary: 'Sign in',
        description:
          'In token mode the answer has both tokens. With `X-Session-Mode: cookie` it sets the session cookie and has none. Unknown company or user, wrong password, disabled user and suspended company are one answer. A member who has a second factor gets 401 `second_factor_required`, and goes on with it at `/auth/login/second-factor`.',
        tags: ['authentication'],
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
      },
    },
    async (request, reply) => {
      const mode = request.headers['x-session-mode'] ?? 'token'
      if (mode === 'cookie') {
        requireSameSite(request, config)
        if (isFromAnotherSite(request)) {
          app.notice('a page of another site signs in by cookie; browsers drop its SameSite=Strict cookie', {
            origin: request.headers.origin,
          })
        }
      }
      const signedIn = await signIn({
        ...request.body,
        mode,
        device: readDeviceCookie(request),
        formerCookie: readSessionCookies(request)[0],
        client: clientOf(request),
        now: system.now(),
      })
      return answerSignIn(request, reply, signedIn)
    },
  )
}

export const loginRoutes = fp(routes, {
  name: 'login-routes',
  dependencies: ['public-guard', 'notices'],
  encapsulate: true,
})
