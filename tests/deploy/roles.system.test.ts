import { execFile } from 'node:child_process'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { request } from 'undici'
import { expect, test } from 'vitest'
import { openConnection } from '../../scripts/kit/postgres.ts'
import { openFolder } from '../support/cleanup.ts'
import { type Cluster, openClusters } from '../support/debian-postgres.ts'
import { startProgram } from '../support/program.ts'
import { createServerProcesses } from '../support/server-process.ts'
import { MASTER_KEYS, PASSWORD } from '../support/test-service.ts'

/** deploy/roles.sql on a new server, and on one with the two roles of its earlier version. */

const ROLES = resolve(import.meta.dirname, '../../deploy/roles.sql')
const clusters = await openClusters()
const { launch, start } = createServerProcesses('')

type Role = 'postgres' | 'gatehouse_owner' | 'gatehouse' | 'gatehouse_operator'

/** Runs the server's programs, and the project's, as a role. */
function clientOf({ host, port }: Cluster) {
  const urlOf = (role: Role, database = 'gatehouse') => `postgres://${role}@${host}:${port}/${database}`

  async function run(role: Role, [program = '', ...args]: string[], variables: Record<string, string> = {}) {
    const place = { PGHOST: host, PGPORT: String(port), PGUSER: role, PGDATABASE: 'gatehouse' }
    await promisify(execFile)(program, args, { env: { PATH: process.env['PATH'], ...place, ...variables } })
  }

  async function rows(statement: string) {
    const connection = await openConnection(urlOf('postgres'))
    try {
      return (await connection.query(statement)).rows
    } finally {
      await connection.end()
    }
  }

  async function admin(role: Role, line: string, variables: Record<string, string> = { MASTER_KEYS }) {
    const env = { DATABASE_URL: urlOf(role), ...variables }
    const { child, ended } = startProgram('admin.ts', ['--json', ...line.split(' ')], env)
    child.stdin.end(line.startsWith('company create') ? PASSWORD : '')
    return await ended
  }

  return {
    run,
    rows,
    admin,
    env: (role: Role) => ({ DATABASE_URL: urlOf(role) }),
    rolesSql: (passwords: Record<string, string> = {}) =>
      run('postgres', ['psql', '--no-psqlrc', `--file=${ROLES}`], { PGDATABASE: 'postgres', ...passwords }),
    /** Who may do what with which table or column, and by default. */
    rights: () =>
      rows(`
        select acl::text collate "C" as acl, name collate "C" as name from (
          select relname, relacl from pg_class where relnamespace = 'public'::regnamespace
          union all select attrelid::regclass || '.' || attname, attacl from pg_attribute where attacl is not null
          union all select 'default', defaclacl from pg_default_acl
        ) granted (name, acls), unnest(acls) acl
        where name not like 'pg\\_%' and name <> 'gatehouse'
        order by name, acl`),
    /** Of the only company. */
    async signIn(address: string, companyId: string) {
      const json = { companyId, email: 'ada@acme.example', password: PASSWORD }
      const { statusCode, body } = await request(`${address}/api/auth/login`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(json),
      })
      expect(statusCode).toBe(200)
      return Object(await body.json()).accessToken
    },
  }
}

const ACME = 'company create --name Acme --admin-email ada@acme.example'
const CLIENT = 'client create --name risk --scope introspect'

const fresh = clientOf(await clusters.create())

test('a new database gets its tables and its first key from migrate (ASVS 13.2.2)', async () => {
  const { admin, env } = fresh
  await expect(fresh.rolesSql({ OWNER_PASSWORD: 'a', SERVICE_PASSWORD: 'b' })).rejects.toThrow('syntax error')
  await fresh.rolesSql({ OPERATOR_PASSWORD: 'c' })

  async function failedStart() {
    const { exit, output } = await launch(env('gatehouse'))
    expect(await exit).toEqual([1, null])
    return output()
  }
  expect(await failedStart()).toMatch(
    /^The database denies access: permission denied for schema public\. Run `npm run admin -- migrate` as the owner/m,
  )
  expect((await admin('gatehouse_owner', 'migrate', {})).code).toBe(0)
  const keyless =
    /^The database has no access token key.*`npm run admin -- migrate` with MASTER_KEYS as the owner/m
  expect(await failedStart()).toMatch(keyless)
  expect((await admin('gatehouse', 'migrate')).stderr).toMatch(keyless)
  expect((await admin('gatehouse_owner', 'migrate')).stdout).toBe('{"migrated":[]}\n')

  const { address } = await start(env('gatehouse'))
  const { companyId } = JSON.parse((await admin('gatehouse_operator', ACME)).stdout)
  await fresh.signIn(address, companyId)
  expect(await fresh.rows('select count(*)::int from signing_keys')).toEqual([{ count: 1 }])
})

/** The statements of the earlier roles.sql. */
const FORMER = [
  ['postgres', 'create role gatehouse_owner login'],
  ['postgres', 'create role gatehouse login'],
  ['postgres', 'create database gatehouse owner gatehouse_owner'],
  ['postgres', 'revoke all on database gatehouse from public'],
  ['postgres', 'grant connect on database gatehouse to gatehouse'],
  ['gatehouse', 'revoke all on schema public from public'],
  ['gatehouse', 'grant usage on schema public to gatehouse'],
  [
    'gatehouse',
    `alter default privileges for role gatehouse_owner in schema public
      grant select, insert, update, delete on tables to gatehouse`,
  ],
] as const

test('roles.sql gives a database with the former roles the same rights, under a running service', async () => {
  const former = clientOf(await clusters.create())
  const { admin, env, rights } = former
  for (const [database, statement] of FORMER)
    await former.run('postgres', ['psql', '--no-psqlrc', '-c', statement], { PGDATABASE: database })
  await admin('gatehouse_owner', 'migrate')
  const { address, platform } = await start(env('gatehouse'))
  const { companyId } = JSON.parse((await admin('gatehouse', ACME)).stdout)
  const { id, secret } = JSON.parse((await admin('gatehouse', CLIENT)).stdout)

  await former.rolesSql({ OPERATOR_PASSWORD: 'c' })
  const token = await former.signIn(address, companyId)
  const { statusCode, body } = await request(`${platform}/introspect`, {
    method: 'POST',
    headers: {
      authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`,
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: `token=${token}`,
  })
  expect([statusCode, await body.json()]).toEqual([200, expect.objectContaining({ active: true })])
  await expect
    .poll(() => former.rows('select last_used_at is not null as used from platform_clients'))
    .toEqual([{ used: true }])
  expect((await admin('gatehouse', CLIENT)).stderr).toMatch(
    /^The database denies access: permission denied for table platform_clients\..*gatehouse_operator/,
  )
  expect((await admin('gatehouse_operator', CLIENT)).code).toBe(0)
  expect(await rights()).toEqual(await fresh.rights())
  // Another run needs no password, and changes nothing.
  await former.rolesSql()
  expect(await rights()).toEqual(await fresh.rights())
})

test('a restored dump has the same rights', async () => {
  const { run, admin, rights } = fresh
  const before = await rights()
  const file = join(await openFolder(), 'gatehouse.dump')
  const owner = (...command: string[]) => run('gatehouse_owner', command)
  await owner('pg_dump', '--format=custom', `--file=${file}`)
  await owner(
    'psql',
    '-c',
    'drop schema public cascade; create schema public; grant usage on schema public to gatehouse',
  )
  await owner('pg_restore', '--no-owner', '--single-transaction', '--dbname=gatehouse', file)
  expect(await rights()).toEqual(before)
  expect((await admin('gatehouse_operator', 'restored')).code).toBe(0)
  expect((await admin('gatehouse', CLIENT)).code).toBe(1)
})
