import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import type { System } from '../system.ts'

const PublicKey = Type.Object(
  {
    kty: Type.Literal('EC', { description: 'The kind of key', examples: ['EC'] }),
    crv: Type.Literal('P-256', { description: 'The curve', examples: ['P-256'] }),
    x: Type.String({
      description: 'A coordinate',
      examples: ['f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU'],
    }),
    y: Type.String({
      description: 'A coordinate',
      examples: ['x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0'],
    }),
    kid: Type.String({ description: 'The `kid` of the tokens that it verifies', examples: ['9xYk3Q'] }),
    alg: Type.Literal('ES256', { description: 'The algorithm of the tokens', examples: ['ES256'] }),
    use: Type.Literal('sig', { description: 'For signatures', examples: ['sig'] }),
  },
  { title: 'PublicKey', description: 'A key of access tokens (RFC 7517)' },
)

const KeySetReply = Type.Object(
  {
    keys: Type.Array(PublicKey, {
      description: 'A new key is here before it signs, and stays while its tokens are good',
    }),
  },
  { title: 'KeySet', description: 'The public keys of access tokens' },
)

const routes: FastifyPluginAsyncTypebox<{ context: { system: System } }> = async (app, { context }) => {
  app.get(
    '/.well-known/jwks.json',
    {
      schema: {
        operationId: 'getKeySet',
        summary: 'Public keys of access tokens',
        description: 'For services that verify access tokens offline. Read it again when a `kid` is unknown.',
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
