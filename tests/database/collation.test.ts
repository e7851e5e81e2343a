import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { runStatement } from '../../scripts/kit/postgres.ts'
import { warnOfCollation } from '../../src/database/byte-order.ts'
import { connect } from '../../src/database/connect.ts'
import { migrate } from '../../src/database/migrate.ts'
import { createEmptyDatabase } from '../support/empty-database.ts'
import { openTestService, times } from '../support/test-service.ts'

/** The data is moved to a system that sorts differently, or the library of the system that sorts is replaced. */

test('after a move to a different collation, sign-ins work and duplicates are found', async () => {
  const url = await createEmptyDatabase("template template0 locale_provider icu icu_locale 'en'")
  const setup = connect({ url, poolSize: 1 })
  await migrate(setup.maintenance)
  await setup.close()
  const before = await openTestService({ url })
  const admin = await before.addCompany()
  const secret = await before.newSecret(admin)
  // Upper case stands among lower case, and an underscore before digits.
  const ids = times(60, (n) => `${n % 2 ? 'e' : 'E'}${n % 3 ? '_' : '0'}${n}`)
  const add = (id: string) => before.addUser(admin, 'viewer', { email: `${id}@x.example` })
  const users = await Promise.all(ids.map(add))
  const events = ids.map((id) => ({ id, type: 'a.b', data: {} }))
  expect((await before.send(admin.companyId, secret, { events })).body).toMatchObject({ accepted: 60 })

  const moved = "datlocprovider = 'b', datlocale = 'C.UTF-8', datcollversion = null"
  await runStatement(url, `update pg_database set ${moved} where datname = current_database()`)
  const after = await openTestService({ url })
  const answers = await Promise.all(users.map((user) => after.login(user)))
  expect(answers.map(({ status }) => status)).toEqual(users.map(() => 200))
  for (const { email } of users.slice(0, 10))
    await expect(after.addUser(admin, 'viewer', { email })).rejects.toThrow()
  const again = await after.send(admin.companyId, secret, { events })
  expect(again.body).toMatchObject({ duplicates: 60 })
})

test('a changed version of the collation is reported, with what to do', async () => {
  const { db, url } = await openTestService()
  const name = new URL(url).pathname.slice(1)
  expect(await warnOfCollation(db)).toEqual([])
  await sql`update pg_database set datcollversion = '0' where datname = ${name}`.execute(db)
  const left = ['known_clients', 'kysely_migration_lock', 'kysely_migration', 'plans', 'roles']
  const indexes = left.map((table) => `${table}_pkey`).join(', ')
  expect(await warnOfCollation(db)).toEqual([
    expect.stringMatching(new RegExp(`from version 0 to 1.* out of order: ${indexes}\\. .*reindex database`)),
  ])
  await sql`alter database ${sql.id(name)} refresh collation version`.execute(db)
  expect(await warnOfCollation(db)).toEqual([])
})
