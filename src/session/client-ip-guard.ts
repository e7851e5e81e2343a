import { isIP } from 'node:net'
import { Type } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { digestServicePassword } from '../crypto/opaque.ts'
import { headerValues } from '../edge/framing.ts'
import { invalidField } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { addProblems } from '../http/responses.ts'
import { invalidToken } from '../token/claims.ts'
import { bearerOf } from './credential.ts'
import type { SessionLookUp } from './look-up.ts'
import type { Session } from './session.ts'

/**
 * A company's own server may name the client for whom it signs someone in. Otherwise all of its people would share the limits of
 * the server's network. Only in the server's company: see toOwnCompany in sign-in/sign-in.ts.
 */

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Routes that people use without a credential. */
    admitsClientIp?: true
  }
}

const HEADER = 'gatehouse-client-ip'

async function clientIp(
  app: FastifyInstance,
  { context, sessions }: { context: Context; sessions: SessionLookUp },
): Promise<void> {
  const { config, system, tokens, opaque } = context
  const countRequest = app.limits.perSubject(config.limits.clientIps, ({ via }) => [via?.userId ?? ''])

  app.addHook('onRoute', ({ config, schema }) => {
    if (!config?.admitsClientIp || !schema) return
    const { properties } = Object(schema.headers)
    schema.headers = Type.Object({ ...properties, [HEADER]: Type.Optional(ClientIp) })
    schema.security = [{}, { accessToken: [] }, { servicePassword: [] }]
    addProblems(schema, ['invalid_token', 'token_expired', 'session_ended'])
  })
  app.addHook('onRequest', async (request) => {
    const [ipAddress, ...others] = headerValues(request.raw, HEADER)
    if (ipAddress === undefined || !request.routeOptions.config.admitsClientIp) return
    if (others.length > 0 || isIP(ipAddress) === 0 || ipAddress.includes('%')) {
      await app.limits.anonymous(request)
      throw invalidField(`headers/${HEADER}`, 'must be one IPv4 or IPv6 address')
    }
    const { companyId, userId } = await findServiceAccount(request)
    request.via = { companyId, userId }
    request.logContext.via = userId
    await countRequest(request)
    request.ipAddress = ipAddress
  })

  /** @throws Problem invalid_request, invalid_token, token_expired, session_ended */
  async function findServiceAccount(request: FastifyRequest): Promise<Session> {
    const bearer = bearerOf(request)
    if (bearer === undefined) {
      await app.limits.anonymous(request)
      const detail =
        'Gatehouse-Client-Ip requires the access token or password of a service account. Send it as `Authorization: Bearer <credential>`, or leave out Gatehouse-Client-Ip.'
      throw invalidField(`headers/${HEADER}`, 'requires the credential of a service account', detail)
    }
    const now = system.now()
    const digest = digestServicePassword(opaque, bearer)
    if (digest) return await sessions.byServicePassword(digest, now)
    const session = await sessions.byToken(await tokens.verifyAccess(bearer, now), now)
    if (session.userKind !== 'service') throw invalidToken()
    return session
  }
}

const ClientIp = Type.String({
  description:
    'IP address of the person, from your own server that signs them in. It counts as the address of the request, and requires `Authorization: Bearer` with the access token or password of a service account of the same company',
  examples: ['192.0.2.1'],
})

export const clientIpGuard = fp(clientIp, {
  name: 'client-ip-guard',
  dependencies: ['memory-limits', 'observe', 'public-guard'],
})
