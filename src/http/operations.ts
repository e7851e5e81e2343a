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

/** Puts routes under a tag of the OpenAPI document, which a route can override. */
export function operationsOf(tag: string) {
  return <Schema extends FastifySchema>(schema: Schema) => ({ schema: { tags: [tag], ...schema } })
}

/** Routes in their own scope. Outside the guards in `dependencies`, they fail at boot. */
export function scopedRoutes<Options extends object, Provider extends FastifyTypeProvider>(
  routes: FastifyPluginAsync<Options, RawServerDefault, Provider>,
  name: string,
  dependencies: string[],
) {
  return fp(routes, { name, dependencies, encapsulate: true })
}

async function guard(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', (route) => {
    route.schema ??= {}
    route.schema.security = []
    // After the route's own hooks, so that requests they refuse as overloaded are not counted.
    if (!route.config?.hasOwnLimits) route.onRequest = [route.onRequest ?? [], app.limits.anonymous].flat()
  })
}

export const publicGuard = fp(guard, { name: 'public-guard', dependencies: ['memory-limits'] })
