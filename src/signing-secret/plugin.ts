import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Context } from '../http/context.ts'
import { createRefusalBook, type RefusalBook } from './refusals.ts'
import { createSigningSecrets, type SigningSecrets } from './service.ts'

declare module 'fastify' {
  interface FastifyInstance {
    signingSecrets: SigningSecrets
    refusals: RefusalBook
  }
}

/** What the guard of events and the routes of the signing secret share. */
async function plugin(app: FastifyInstance, { context }: { context: Context }): Promise<void> {
  const refusals = createRefusalBook({
    ...context,
    onFailure: (cause) => app.notice('refusals of events could not be written', { cause }),
  })
  app.decorate('signingSecrets', createSigningSecrets(context))
  app.decorate('refusals', refusals)
  app.addHook('onClose', refusals.flush)
}

export const signingSecretPlugin = fp(plugin, { name: 'signing-secrets', dependencies: ['notices'] })
