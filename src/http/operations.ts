import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type {
  FastifyInstance,
  FastifyPluginAsync,
  FastifySchema,
  FastifyTypeProvider,
  RawServerDefault,
} from 'fastify'
import fp from 'fastify-plugin'

export type Routes<Context> = FastifyPluginAsyncTypebox<{ context: Context }>

/** Makes the options of routes under one heading of the document. A route can name another. */
export function operationsOf(tag: string) {
  return <Schema extends FastifySchema>(schema: Schema) => ({ schema: { tags: [tag], ...schema } })
}

/** Routes in a scope of their own. They fail at boot outside the guards that `dependencies` names. */
export function scopedRoutes<Options extends object, Provider extends FastifyTypeProvider>(
  routes: FastifyPluginAsync<Options, RawServerDefault, Provider>,
  name: string,
  dependencies: string[],
) {
  return fp(routes, { name, dependencies, encapsulate: true })
}

/** Admits requests without a credential, up to the limit of their network. */
async function guard(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', (route) => {
    route.schema ??= {}
    route.schema.security = []
    // After the route's own hooks, so that requests that they refuse as overloaded are not counted.
    if (!route.config?.hasOwnLimits) route.onRequest = [route.onRequest ?? [], app.limits.anonymous].flat()
  })
}

export const publicGuard = fp(guard, { name: 'public-guard', dependencies: ['memory-limits'] })
