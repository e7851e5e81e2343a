import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import type { System } from '../system.ts'

const PublicKey = Type.Object(
  {
    kty: Type.Literal('EC', { description: 'Key type', examples: ['EC'] }),
    crv: Type.Literal('P-256', { description: 'Curve', examples: ['P-256'] }),
    x: Type.String({
      description: 'X coordinate',
      examples: ['f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU'],
    }),
    y: Type.String({
      description: 'Y coordinate',
      examples: ['x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0'],
    }),
    kid: Type.String({
      description: 'Key ID, in the header of the tokens that it verifies',
      examples: ['9xYk3Q'],
    }),
    alg: Type.Literal('ES256', { description: 'Signing algorithm', examples: ['ES256'] }),
    use: Type.Literal('sig', { description: 'Key use: signatures', examples: ['sig'] }),
  },
  { title: 'PublicKey', description: 'Public key that verifies access tokens (RFC 7517)' },
)

const KeySetReply = Type.Object(
  {
    keys: Type.Array(PublicKey, {
      description: 'Keys, published before they sign and until their last token expires',
    }),
  },
  { title: 'KeySet', description: 'Public keys that verify access tokens' },
)

const routes: FastifyPluginAsyncTypebox<{ context: { system: System } }> = async (app, { context }) => {
  app.get(
    '/.well-known/jwks.json',
    {
      schema: {
        operationId: 'getKeySet',
        summary: 'Get the public keys',
        description:
          'Returns the keys to verify access tokens offline. If a `kid` is unknown, fetch the keys again.',
        tags: ['keys'],
        response: { 200: KeySetReply },
      },
    },
    async (_request, reply) => {
      reply.header('cache-control', 'public, max-age=300')
      return { keys: await app.tokens.publishedKeys(context.system.now()) }
    },
  )
}

export const keySetRoutes = fp(routes, {
  name: 'key-set-routes',
  dependencies: ['public-guard', 'tokens'],
  encapsulate: true,
})
