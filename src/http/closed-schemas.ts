import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { NoBody } from './body.ts'

/** A route without a schema for its query or body accepts none, just as it accepts no unknown fields. */
async function plugin(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', ({ schema, method }) => {
    if (!schema) return
    schema.querystring ??= Type.Object({}, { additionalProperties: false })
    if (method !== 'GET' && method !== 'HEAD') schema.body ??= NoBody
  })
}

export const closedSchemasPlugin = fp(plugin, { name: 'closed-schemas' })
