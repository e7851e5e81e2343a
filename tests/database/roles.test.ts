import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { connect } from '../../src/database/connect.ts'
import { commandLineOf } from '../operator/command-line.ts'
import { whenDone } from '../support/cleanup.ts'
import { asRole } from '../support/postgres.ts'
import { openTestService, times } from '../support/test-service.ts'

/** The roles of deploy/roles.sql. All tests run the service as `gatehouse`, and commands as `gatehouse_operator`. */

const service = await openTestService()
const { admin, refusalOf, type } = commandLineOf(service)
const admins = await service.addCompany()
const OWNER = asRole(service.url, 'gatehouse_owner')

function open(role: 'gatehouse' | 'gatehouse_operator') {
  const { db, close } = connect({ url: asRole(service.url, role), poolSize: 1 })
  whenDone(close)
  return db
}
const roles = { gatehouse: open('gatehouse'), gatehouse_operator: open('gatehouse_operator') }

/** Tables, each with a column. */
const RESERVED = {
  platform_clients: 'scopes',
  plans: 'features',
  roles: 'permissions',
  signing_keys: 'revoked_at',
}
const OF_OWNER = { kysely_migration: 'name', kysely_migration_lock: 'is_locked' }

const writesOf = (tables: Record<string, string>) =>
  Object.entries(tables).flatMap(([table, column]) =>
    [
      `insert into ${table} default values`,
      `update ${table} set ${column} = ${column}`,
      `delete from ${table}`,
    ].map((statement) => [statement, `permission denied for table ${table}`] as const),
  )
const CHANGES = [
  ['create table mine ()', 'permission denied for schema public'],
  ['alter table users add mine text', 'must be owner of table users'],
  ['drop table roles', 'must be owner of table roles'],
  ['truncate users', 'permission denied for table users'],
  ['alter table audit_events disable trigger all', 'must be owner of table audit_events'],
  ['select reserve_tables()', 'permission denied for function reserve_tables'],
  ['set role gatehouse_owner', 'permission denied to set role'],
] as const

test.for([...writesOf({ ...RESERVED, ...OF_OWNER }), ...CHANGES])(
  "the service's role is denied: %s (ASVS 13.2.2)",
  async ([statement, reason]) => {
    await expect(sql.raw(statement).execute(roles.gatehouse)).rejects.toThrow(reason)
  },
)

test("the service's role cannot become the operators' role (ASVS 13.2.2)", async () => {
  const change = sql`set role gatehouse_operator`.execute(roles.gatehouse)
  await expect(change).rejects.toThrow('permission denied to set role')
})

test.for([...writesOf(OF_OWNER), ...CHANGES])(
  "the operators' role is denied: %s (ASVS 13.2.2)",
  async ([statement, reason]) => {
    await expect(sql.raw(statement).execute(roles.gatehouse_operator)).rejects.toThrow(reason)
  },
)

test('the roles can read all tables, and write all but the reserved ones (ASVS 13.2.2)', async () => {
  async function denied(role: string, privilege: string) {
    const { rows } = await sql<{ name: string }>`
      select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v')
        and not has_table_privilege(${role}, oid, ${privilege})
      order by 1`.execute(service.db)
    return rows.map(({ name }) => name)
  }
  for (const [role, reserved] of Object.entries({
    gatehouse: Object.keys({ ...RESERVED, ...OF_OWNER }).sort(),
    gatehouse_operator: Object.keys(OF_OWNER),
  })) {
    expect([role, await denied(role, 'select')]).toEqual([role, []])
    for (const act of ['insert', 'update', 'delete'])
      expect([role, act, await denied(role, act)]).toEqual([role, act, reserved])
  }
})

test('a command that its role may not run says which role may', async () => {
  const ofService = { env: { DATABASE_URL: asRole(service.url, 'gatehouse') } }
  const client = 'client create --name mine --scope introspect'
  for (const [line, table] of [
    [client, 'platform_clients'],
    ['keys rotate', 'signing_keys'],
  ] as const) {
    expect(await refusalOf(line, ofService)).toMatch(
      new RegExp(`^The database denies access: permission denied for table ${table}\\. .*gatehouse_operator`),
    )
  }
})

test.for(['gatehouse_operator', 'gatehouse_owner'] as const)('%s can run every command', async (role) => {
  const env = { DATABASE_URL: asRole(service.url, role) }
  const run = new Set<string>()
  async function act(name: string, rest = '', input = '') {
    run.add(name)
    return await admin(`${name} ${rest}`.trim(), { env, input })
  }
  const mine = `${randomBytes(4).toString('hex')}.example`
  await act('migrate')
  const { companyId } = await act('company create', `--name Mine --admin-email a@${mine}`, 'a fine password')
  await act('company list')
  await act('company show', companyId)
  await act('company suspend', companyId)
  await act('company resume', companyId)
  await act('company security', `${companyId} --second-factor admins`)
  const of = `--company ${companyId}`
  await act('subscription set', `${of} --status active --plan growth`)
  await act('user create', `${of} --email b@${mine} --role viewer`)
  await act('user list', of)
  const user = `${of} --email b@${mine}`
  await act('user show', user)
  await act('user role', `${user} --role analyst`)
  await act('user disable', user)
  await act('user enable', user)
  await act('user unlock', user)
  await act('user reset-second-factors', user)
  await act('user delete', user)
  await act('invite', `${of} --email c@${mine} --role viewer`)
  const { accessToken: token } = await service.loginAs(admins)
  const json = { name: `Worker ${role}`, role: 'viewer' }
  const { body } = await service.call('/auth/members', { token, json })
  await act('user password', `--company ${admins.companyId} --user ${body.id}`)
  await act('sessions end', of)
  await act('sessions end', '--all')
  await act('audit', of)
  const { keyId } = await act('keys rotate')
  await act('keys list')
  await act('keys retire', `-- ${keyId}`)
  const { id } = await act('client create', '--name mine --scope introspect,events:read')
  await act('client list')
  await act('client rotate', id)
  await act('client rotate', `${id} --finish`)
  await act('client delete', id)
  await act('company delete', companyId)
  await act('prune')
  await act('restored')
  const { stdout } = await type('--help')
  const [commands = ''] = stdout.split('  --json')
  const names = [...commands.matchAll(/^ {2}([a-z]+(?: [a-z][a-z-]*)?)(?= )/gm)].map(([, name]) => name)
  expect([...run].sort()).toEqual(names.sort())
  // The service reads the new keys.
  service.clock.advance(60)
  expect((await service.login(admins)).status).toBe(200)
})

test('rights are given again after each migration, also at the same time', async () => {
  await sql`grant update on roles to gatehouse`.execute(service.db)
  const migrate = () => admin('migrate', { env: { DATABASE_URL: OWNER } })
  await Promise.all(times(4, migrate))
  await expect(sql.raw("update roles set role = 'mine'").execute(roles.gatehouse)).rejects.toThrow(
    'permission denied',
  )
})
