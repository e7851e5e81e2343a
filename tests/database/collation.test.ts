import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { warnOfCollation } from '../../src/database/indexes.ts'
import { openTestService } from '../support/test-service.ts'

test('a changed collation is reported with the indexes that it affects', async () => {
  const { db, url } = await openTestService()
  const name = new URL(url).pathname.slice(1)
  expect(await warnOfCollation(db)).toEqual([])
  await sql`update pg_database set datcollversion = '0' where datname = ${name}`.execute(db)
  // No index on values from clients is affected, so accounts and events are found even after a move.
  const left = ['known_clients', 'kysely_migration_lock', 'kysely_migration', 'plans', 'roles']
  const indexes = left.map((table) => `${table}_pkey`).join(', ')
  expect(await warnOfCollation(db)).toEqual([
    expect.stringMatching(new RegExp(`from version 0 to 1.* out of order: ${indexes}\\. .*reindex database`)),
  ])
  await sql`alter database ${sql.id(name)} refresh collation version`.execute(db)
  expect(await warnOfCollation(db)).toEqual([])
})
