import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import type { System } from '../system.ts'

const KeySetReply = Type.Object({
  keys: Type.Array(
    Type.Object({
      kty: Type.Literal('EC'),
      crv: Type.Literal('P-256'),
      x: Type.String(),
      y: Type.String(),
      kid: Type.String(),
      alg: Type.Literal('ES256'),
      use: Type.Literal('sig'),
    }),
  ),
})

/** The public keys of access tokens (RFC 7517), for services that verify offline. */
const routes: FastifyPluginAsyncTypebox<{ system: System }> = async (app, { system }) => {
  app.get(
    '/.well-known/jwks.json',
    {
      schema: {
        operationId: 'getKeySet',
        summary: 'Public keys of access tokens',
        tags: ['keys'],
        response: { 200: KeySetReply },
      },
    },
    async (_request, reply) => {
      reply.header('cache-control', 'public, max-age=300')
      return { keys: await app.tokens.publishedKeys(system.now()) }
    },
  )
}

export const keySetRoutes = fp(routes, {
  name: 'key-set-routes',
  dependencies: ['public-guard', 'tokens'],
  encapsulate: true,
})
