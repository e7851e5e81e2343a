import type { Context } from '../http/context.ts'
import { type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { IngestBody, IngestHeaders, IngestReply, MAX_BODY_BYTES } from './schemas.ts'
import { createIngest } from './service.ts'

const routes: Routes<Context> = async (app, { context }) => {
  const ingest = createIngest(context)
  app.post(
    '/events/ingest',
    {
      bodyLimit: MAX_BODY_BYTES,
      schema: {
        operationId: 'ingestEvents',
        summary: 'Store one event, or a batch whole or not at all',
        description:
          'Signed as in Standard Webhooks: the signature is checked over the raw bytes. Answered once the events are committed, so a lost answer can be retried: what is stored is a duplicate then. On a trial, a company can send 256 MiB of events a day (UTC).',
        tags: ['events'],
        headers: IngestHeaders,
        body: IngestBody,
        response: responses(
          { 202: IngestReply },
          'subscription_inactive',
          'feature_not_in_plan',
          'event_id_conflict',
        ),
      },
    },
    async ({ sender, body }, reply) => {
      const result = await ingest(sender, body, context.system.now())
      reply.code(202)
      return result
    },
  )
}

export const ingestRoutes = scopedRoutes(routes, 'ingest-routes', ['signature-guard'])
