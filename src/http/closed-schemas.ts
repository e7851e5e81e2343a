import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { NoBody } from './body.ts'

/** One object for all, so that it is compiled once. */
const NO_QUERY = Type.Object({}, { additionalProperties: false })

/** A route without a schema for its query or body accepts none, just as it accepts no unknown fields. */
async function plugin(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', ({ schema, method }) => {
    if (!schema) return
    schema.querystring ??= NO_QUERY
    if (method !== 'GET' && method !== 'HEAD') schema.body ??= NoBody
  })
}

export const closedSchemasPlugin = fp(plugin, { name: 'closed-schemas' })
