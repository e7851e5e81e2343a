import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

/** Admits requests without a credential, up to the limit of their network. */
async function plugin(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', (route) => {
    route.schema ??= {}
    route.schema.security = []
    // After the route's own hooks, so that requests that they refuse as overloaded are not counted.
    if (!route.config?.hasOwnLimits) route.onRequest = [route.onRequest ?? [], app.limits.anonymous].flat()
  })
}

export const publicGuard = fp(plugin, { name: 'public-guard', dependencies: ['memory-limits'] })
