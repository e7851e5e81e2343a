import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

/** Lets in requests without a credential, as many as their network may send. */
async function plugin(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', (route) => {
    route.schema ??= {}
    route.schema.security = []
    // Behind the hooks of the route itself: what these refuse for being too much is not counted.
    route.onRequest = [route.onRequest ?? [], app.limits.anonymous].flat()
  })
}

export const publicGuard = fp(plugin, { name: 'public-guard', dependencies: ['memory-limits'] })
