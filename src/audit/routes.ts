import { Readable } from 'node:stream'
import type { Static } from '@sinclair/typebox'
import { invalidField, Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { normalizeEmail } from '../http/email-address.ts'
import { preferredType } from '../http/headers.ts'
import { readPage, toTimeAndId } from '../http/list-pages.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { createCompanyAdmission } from '../limits/company-admission.ts'
import { CSV, exportTrail, NDJSON, throwOverloaded, toReply } from './export.ts'
import { readAuditFeed } from './feed.ts'
import { countDaily, type Filter, findNames, listTrail, type TrailEntry } from './repository.ts'
import * as schemas from './schemas.ts'

const operation = operationsOf('audit')

const routes: Routes<Context> = async (app, { context: { auditDb: db, config, system } }) => {
  const admit = createCompanyAdmission(config.limits.auditReads)
  const exporting = new Set<string>()

  app.get(
    '/auth/audit',
    operation({
      operationId: 'listAudit',
      summary: 'List audit entries',
      description:
        'Returns pages, newest first. Requires the permission `audit:read`. Refused sign-ins are summed by minute, network, reason, and member, with at most 20 entries per minute, and kept for 90 days. Sign-ins of service accounts are summed by minute and network in the same way, and `details.superseded` counts the sessions that they ended. If the `Accept` header prefers `application/x-ndjson` or `text/csv`, the response is a stream of all matching entries, with names. Each process runs one such export per company at a time.',
      querystring: schemas.AuditQuery,
      response: {
        200: {
          description: schemas.AuditReply.description,
          content: {
            'application/json': { schema: schemas.AuditReply },
            [NDJSON]: { schema: schemas.EntryLines },
            [CSV]: { schema: schemas.CsvLines },
          },
        },
      },
    }),
    async ({ session: { companyId }, query, headers }, reply) => {
      const filter = toFilter(query)
      const format = preferredType(headers.accept, ['application/json', NDJSON, CSV])
      if (format !== 'application/json') {
        if (exporting.has(companyId)) throw alreadyExporting()
        exporting.add(companyId)
        const lines = Readable.from(exportTrail(db, companyId, filter, format))
        lines.once('close', () => exporting.delete(companyId))
        const name = format === CSV ? 'audit.csv' : 'audit.ndjson'
        reply
          .type(format === CSV ? `${CSV}; charset=utf-8` : format)
          .header('content-disposition', `attachment; filename="${name}"`)
        return reply.send(lines)
      }
      const page = admit(companyId, async () => {
        const { rows, nextCursor } = await readPage(
          query,
          ({ occurredAt, id }: TrailEntry) => [occurredAt.toISOString(), id],
          ({ after, max }) =>
            listTrail(db, companyId, { ...filter, after: after && toTimeAndId(after), max }),
        )
        return { entries: rows.map(toReply), names: await findNames(db, companyId, rows), nextCursor }
      })
      return reply.send(await page.catch(throwOverloaded))
    },
  )

  app.get(
    '/auth/audit/daily',
    operation({
      operationId: 'countAuditDaily',
      summary: 'Count audit entries by day',
      description:
        'Counts sign-ins, refusals, and changes by day in UTC. Today counts up to now. Requires the permission `audit:read`.',
      querystring: schemas.DailyQuery,
      response: { 200: schemas.DailyReply },
    }),
    async ({ session: { companyId }, query }) => {
      const now = new Date(system.now())
      const { days = schemas.DEFAULT_DAYS } = query
      const counting = admit(companyId, () => countDaily(db, companyId, { now, days }))
      return { days: await counting.catch(throwOverloaded) }
    },
  )
}

const feed: Routes<Context> = async (app, { context: { auditDb: db, config } }) => {
  const admit = createCompanyAdmission({ ...config.limits.auditReads, max: 1 })
  const onRequest = app.limits.perSubject(config.limits.auditFeed, ({ session }) => [session.sessionId])
  app.get(
    '/auth/audit/feed',
    {
      onRequest,
      ...operation({
        operationId: 'readAuditFeed',
        summary: 'Read the audit feed',
        description:
          'For collectors: entries in a stable order, oldest first. Each reader keeps its own cursor. Nothing is skipped, and an entry comes again only with an older cursor. Sums of sign-ins come when they can no longer grow: two minutes after their minute began, and those with the reason `factor_missing` or `other` after 17. Entries from before the feed existed are missing; `GET /auth/audit` returns them. Requires the permission `audit:read`. Service accounts can send their password as a bearer token instead of signing in.',
        querystring: schemas.AuditFeedQuery,
        response: responses({ 200: schemas.AuditFeedReply }, 'unavailable'),
      }),
    },
    async ({ session: { companyId }, query: { after, limit = schemas.DEFAULT_ENTRIES } }) => {
      const reading = admit(companyId, () => readAuditFeed(db, companyId, { after, limit }))
      const { entries, ...page } = await reading.catch(throwOverloaded)
      return {
        entries: entries.map(({ part: _part, position: _position, ...entry }) => toReply(entry)),
        ...page,
      }
    },
  )
}

function alreadyExporting(): Problem {
  const detail = 'Your company already has an export in progress. Retry when it has finished.'
  return new Problem('rate_limited', detail, { retryAfterSeconds: 10 })
}

function toFilter({ action, actor, outcome, subject, from, to }: Static<typeof schemas.AuditQuery>): Filter {
  return {
    action,
    actor: actor?.toLowerCase(),
    outcome,
    subject: subject && normalizeEmail(subject),
    from: toTime('from', from),
    to: toTime('to', to),
  }
}

/** The format allows leap seconds, which the service does not have. @throws Problem invalid_request */
function toTime(name: string, text: string | undefined): Date | undefined {
  if (text === undefined) return undefined
  const time = new Date(text)
  if (Number.isNaN(time.getTime()))
    throw invalidField(`querystring/${name}`, 'must be a valid date and time (RFC 3339)')
  return time
}

export const auditRoutes = scopedRoutes(routes, 'audit-routes', ['permission-guard'])
export const auditFeedRoutes = scopedRoutes(feed, 'audit-feed-routes', ['feed-guard'])
