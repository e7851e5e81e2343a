import { Type } from '@fastify/type-provider-typebox'
import { withSpellings } from '../http/json-numbers.ts'
import { type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import type { Feed, FeedPage } from './feed.ts'
import type { FeedEvent } from './feed-repository.ts'
import { FeedQuery, FeedReply } from './feed-schemas.ts'

const routes: Routes<{ feed: Feed }> = async (app, { context: { feed } }) => {
  app.get(
    '/events',
    {
      schema: {
        operationId: 'readEvents',
        summary: 'Read ingested events',
        description:
          'In one stable order, by the scope `events:read`. Each reader keeps its own cursor. Nothing that is committed is skipped, and an event comes again only with an older cursor.',
        tags: ['events'],
        querystring: FeedQuery,
        response: responses({ 200: Type.Unsafe<FeedPage>(FeedReply) }, 'cursor_expired', 'unavailable'),
      },
      // It waits for events for up to 25 s.
      config: { answerWithinMs: 33_000 },
    },
    async (request, reply) => {
      const { after, limit = 100, wait: waitSeconds = 0 } = request.query
      const left = new AbortController()
      reply.raw.once('close', () => left.abort())
      const page = await feed.read({
        after,
        limit,
        waitSeconds,
        signal: left.signal,
        confirm: () => request.confirmClient(),
      })
      reply.type('application/json; charset=utf-8').serializer(toText)
      return page
    },
  )
}

/** As the schema says. The data are JSON already: to parse and write them again would be most of the work. */
function toText({ events, next, isCaughtUp }: FeedPage): string {
  return `{"events":[${events.map(toEventText).join(',')}],"next":${JSON.stringify(next)},"isCaughtUp":${isCaughtUp}}`
}

/** Ids and types have no character that JSON escapes: see ingest/schemas.ts. */
function toEventText({
  companyId,
  eventId,
  type,
  occurredAt,
  receivedAt,
  data,
  spellings,
}: FeedEvent): string {
  const occurred = occurredAt === null ? null : `"${toRfc3339(occurredAt)}"`
  return `{"companyId":"${companyId}","id":"${eventId}","type":"${type}","occurredAt":${occurred},"receivedAt":"${toRfc3339(receivedAt)}","data":${withSpellings(data, spellings)}}`
}

/**
 * To milliseconds. A `Date` in between would be a third of the work. With an offset, a sender can write times whose year in UTC is
 * 0 or 10000, which RFC 3339 cannot: then it is the nearest time that it can.
 */
function toRfc3339(time: string): string {
  if (time.endsWith('BC')) return '0001-01-01T00:00:00.000Z'
  if (time[4] !== '-') return '9999-12-31T23:59:59.999Z'
  return `${time.slice(0, 10)}T${time.slice(11, 19)}.${time.slice(20, 23).padEnd(3, '0')}Z`
}

export const feedRoutes = scopedRoutes(routes, 'feed-routes', ['scope-guard'])
