import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import { ipAddressOf } from '../limits/client.ts'
import type { System } from '../system.ts'
import { clearSessionCookie } from './cookie.ts'
import type { LogOut } from './logout.ts'
import { LogoutQuery } from './schemas.ts'

interface Options {
  system: System
  logOut: LogOut
}

/** Logout; behind the credential guard. */
const routes: FastifyPluginAsyncTypebox<Options> = async (app, { system, logOut }) => {
  app.post(
    '/auth/logout',
    {
      schema: {
        operationId: 'logout',
        summary: 'End the session, or with `scope=all` all sessions of the user',
        description: 'After the answer, no instance accepts a credential of the session.',
        tags: ['authentication'],
        querystring: LogoutQuery,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      const { credential, query, logContext } = request
      const ipAddress = ipAddressOf(request)
      const scope = query.scope === 'all' ? 'all' : 'session'
      Object.assign(logContext, await logOut(credential, { scope, ipAddress, now: system.now() }))
      if ('cookie' in credential) clearSessionCookie(reply)
      reply.code(204)
      return null
    },
  )
}

export const logoutRoutes = fp(routes, {
  name: 'logout-routes',
  dependencies: ['credential-guard'],
  encapsulate: true,
})
