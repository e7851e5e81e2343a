import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import { answers, WITH_BODY } from '../http/openapi.ts'
import type { System } from '../system.ts'
import { IngestBody, IngestHeaders, IngestReply, MAX_BODY_BYTES } from './schemas.ts'
import type { Ingest } from './service.ts'

interface Options {
  ingest: Ingest
  system: System
}

/** Signed ingestion; behind the signature guard. */
const routes: FastifyPluginAsyncTypebox<Options> = async (app, { ingest, system }) => {
  app.post(
    '/events/ingest',
    {
      bodyLimit: MAX_BODY_BYTES,
      attachValidation: true,
      schema: {
        operationId: 'ingestEvents',
        summary: 'Store one event, or a batch whole or not at all',
        tags: ['events'],
        security: [{ signature: [] }],
        headers: IngestHeaders,
        body: IngestBody,
        response: answers(
          { 202: IngestReply },
          ...WITH_BODY,
          'invalid_signature',
          'subscription_inactive',
          'feature_not_in_plan',
          'event_id_conflict',
        ),
      },
    },
    async ({ sender, body }, reply) => {
      const result = await ingest.ingest(sender, body, system.now())
      reply.code(202)
      return result
    },
  )
}

export const ingestRoutes = fp(routes, {
  name: 'ingest-routes',
  dependencies: ['signature-guard'],
  encapsulate: true,
})
