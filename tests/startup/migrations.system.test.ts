import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { createServerProcesses } from '../support/server-process.ts'
import { openTestService } from '../support/test-service.ts'

/** A database that this version cannot migrate is one line for the operator, not a stack. */

const service = await openTestService()
const { launch } = createServerProcesses(service.url)
const { db } = service

async function expectRefused(cause: RegExp) {
  const { exit, output } = await launch({})
  expect(await exit).toEqual([1, null])
  expect(output()).toMatch(/^The database was migrated by another version \([^\n]+\)\. Start [^\n]+\.\n$/)
  expect(output()).toMatch(cause)
}

test('a start refuses migrations of a different version', async () => {
  await sql`delete from kysely_migration where name like '0002-%'`.execute(db)
  await expectRefused(/to be at index 1/)
  await sql`update kysely_migration set name = '0002-of-others' where name like '0003-%'`.execute(db)
  await expectRefused(/0002-of-others is missing/)
})
