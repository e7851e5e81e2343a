import type { Operation } from '../drive/load.ts'
import { EVENT_ID_PREFIX, SAMPLE_EVENT } from '../operations/sample-event.ts'
import type { Target } from '../target/target.ts'
import { openLoadTestTables } from './load-test-tables.ts'
import { openStatements, type Statement } from './statements.ts'

const DATA = JSON.stringify(SAMPLE_EVENT.data)

/** Inserts of the same event under new ids, `batch` rows a statement; undefined if the database is not known. */
export async function openEventInserts(
  { databaseUrl, admin: { companyId } }: Target,
  { users, batch }: { users: number; batch: number },
  cleanup: AsyncDisposableStack,
): Promise<Operation[] | undefined> {
  if (!databaseUrl) return undefined
  await openLoadTestTables(databaseUrl, companyId, cleanup)
  const statements = Array.from({ length: users }, (_, user) => {
    const prefix = `${EVENT_ID_PREFIX}-baseline-${batch}-${user}`
    let inserted = 0
    return () => {
      inserted += batch
      const eventIds = Array.from({ length: batch }, (_, index) => `${prefix}-${inserted - index}`)
      const [first] = eventIds
      return batch === 1 ? insertEvent(companyId, first) : insertEvents(companyId, eventIds)
    }
  })
  return await openStatements(databaseUrl, statements, cleanup)
}

function insertEvent(companyId: string, eventId: string | undefined): Statement {
  return {
    name: 'insert',
    text: `insert into load_test_events (company_id, event_id, type, occurred_at, received_at, data, feed_position)
      values ($1, $2, $3, $4, $5, $6, 1)`,
    values: [companyId, eventId, SAMPLE_EVENT.type, SAMPLE_EVENT.occurredAt, new Date(), DATA],
    rows: 1,
  }
}

function insertEvents(companyId: string, eventIds: string[]): Statement {
  return {
    name: 'insert many',
    text: `insert into load_test_events (company_id, event_id, type, occurred_at, received_at, data, feed_position)
      select $1, i.id, i.type, i.at, $2, i.data, 1
      from unnest($3::text[], $4::text[], $5::timestamptz[], $6::json[]) as i (id, type, at, data)`,
    values: [
      companyId,
      new Date(),
      eventIds,
      eventIds.map(() => SAMPLE_EVENT.type),
      eventIds.map(() => SAMPLE_EVENT.occurredAt),
      eventIds.map(() => DATA),
    ],
    rows: eventIds.length,
  }
}
