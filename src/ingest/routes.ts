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
        summary: 'Send one event or a batch',
        description:
          'A batch is stored completely, or not at all. Requests are signed as in Standard Webhooks, over the raw bytes of the body. The response follows the commit. If you do not get it, retry: events that are already stored count as duplicates. On a trial, the limit `trial-bytes` applies to each day in UTC.',
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
