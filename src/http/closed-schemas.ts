import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { NoBody } from './body.ts'

/** A route that names no query parameters or no body takes none, as it takes no unknown fields. */
async function plugin(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', ({ schema, method }) => {
    if (!schema) return
    schema.querystring ??= Type.Object({}, { additionalProperties: false })
    if (method !== 'GET' && method !== 'HEAD') schema.body ??= NoBody
  })
}

export const closedSchemasPlugin = fp(plugin, { name: 'closed-schemas' })
