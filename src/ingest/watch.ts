import type { Context } from '../http/context.ts'
import { withSpellings } from '../http/json-parts.ts'
import { toRfc3339 } from '../platform/feed.ts'
import { type Actor, perform } from '../session/acts.ts'
import * as repository from './watch-repository.ts'

/** Members watch what their company sends. The watch is in the database, so every instance lists the events it stores. */

const WATCH_MS = 15 * 60_000
/** Longer than a watch by the minute in which looks write nothing. */
const KEPT_MS = 16 * 60_000

export type Watched = Awaited<ReturnType<typeof watchEvents>>

/** Starts a watch, or keeps it. Only the start is audited. @throws Problem session_ended, permission_denied */
export async function watchEvents(context: Pick<Context, 'db' | 'system'>, actor: Actor, limit: number) {
  const { companyId } = actor.session
  const times = { now: new Date(actor.now), until: new Date(actor.now + KEPT_MS) }
  const watchedSince =
    (await repository.keepWatch(context.db, companyId, times)) ?? (await beginWatch(context, actor, times))
  const since = new Date(actor.now - WATCH_MS)
  return { events: await repository.listWatched(context.db, companyId, { since, limit }), watchedSince }
}

async function beginWatch(
  context: Pick<Context, 'db' | 'system'>,
  actor: Actor,
  times: { now: Date; until: Date },
): Promise<Date> {
  return await perform(
    context,
    actor,
    {
      permission: 'events:inspect',
      lock: (tx, companyId) => repository.beginWatch(tx, companyId, times),
    },
    async ({ tx, companyId, audit }, hasBegun) => {
      if (hasBegun) await audit('events_watch')
      return (await repository.keepWatch(tx, companyId, times)) ?? times.now
    },
  )
}

/** By hand, because `data` is already JSON. IDs and types need no escaping: see schemas.ts. */
export function toText({ events, watchedSince }: Watched): string {
  return `{"events":[${events.map(toEventText).join(',')}],"watchedSince":"${watchedSince.toISOString()}"}`
}

function toEventText({ id, type, occurredAt, receivedAt, data, spellings }: Watched['events'][number]) {
  const occurred = occurredAt === null ? null : `"${toRfc3339(occurredAt)}"`
  const shown = data === null ? '' : `"data":${withSpellings(data, spellings)},`
  return `{"id":"${id}","type":"${type}","occurredAt":${occurred},"receivedAt":"${toRfc3339(receivedAt)}",${shown}"isTruncated":${data === null}}`
}
