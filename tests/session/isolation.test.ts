import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { useSharedService } from '../support/test-service.ts'
import { copySession } from './state.ts'

const { service } = await useSharedService()

/** A company with a secret, an event, and a session of each kind. */
async function addFurnishedCompany() {
  const admin = await service.addCompany()
  const secret = await service.newSecret(admin)
  const event = { id: 'shared-id', type: 'payment.created', data: { of: admin.email } }
  await service.send(admin.companyId, secret, event)
  await service.cookieOf(admin)
  return admin
}
const ours = await addFurnishedCompany()
const theirs = await addFurnishedCompany()

async function rowsOf(companyId: string): Promise<string[]> {
  const { rows: tables } = await sql<{ name: string }>`
    select table_name as name from information_schema.columns
    where table_schema = 'public' and column_name = 'company_id'
      and table_name in (select table_name from information_schema.tables where table_type = 'BASE TABLE')
    order by 1`.execute(service.db)
  const rows: string[] = []
  for (const { name } of tables) {
    const inTable = sql<{ row: string }>`
      select ${name} || t::text as row from ${sql.table(name)} t where company_id = ${companyId}`
    rows.push(...(await inTable.execute(service.db)).rows.map(({ row }) => row))
  }
  return rows.sort()
}

/** Values that only the other company's rows contain, so none of our responses may show them. */
async function marksOf(companyId: string): Promise<string[]> {
  const { rows } = await sql<{ mark: string }>`
    select company_id::text as mark from companies where company_id = ${companyId}
    union select name from companies where company_id = ${companyId}
    union select unnest(array[user_id::text, email]) from users where company_id = ${companyId}
    union select session_id::text from sessions where company_id = ${companyId}
    union select '…' || hint from signing_secrets where company_id = ${companyId}`.execute(service.db)
  return rows.map(({ mark }) => mark)
}

/** Routes behind the session guard, by the service's OpenAPI document. */
async function sessionRoutes(): Promise<{ method: string; path: string }[]> {
  const { body } = await service.call('/openapi.json', { method: 'GET' })
  return Object.entries<Record<string, { security?: object[] }>>(body.paths).flatMap(([path, operations]) =>
    Object.entries(operations)
      .filter(([, { security }]) => security?.some((one) => 'accessToken' in one))
      .map(([method]) => ({ method: method.toUpperCase(), path })),
  )
}

test('no route reads or changes a different company (ASVS 8.2.2, 8.4.1)', async () => {
  const routes = await sessionRoutes()
  expect(routes.map(({ path }) => path)).toEqual(
    expect.arrayContaining(['/auth/session', '/auth/logout', '/auth/webhook-secret/status']),
  )
  const marks = await marksOf(theirs.companyId)
  const before = await rowsOf(theirs.companyId)
  const sessions = service.db.selectFrom('sessions').select('session_id')
  const theirSession = await sessions.where('company_id', '=', theirs.companyId).executeTakeFirstOrThrow()
  const theirIds = [theirSession.session_id, theirs.userId, theirs.companyId]

  for (const { method, path } of routes) {
    const targets = path.includes('{') ? theirIds.map((id) => path.replace(/\{\w+\}/g, id)) : [path]
    for (const target of targets) {
      // Some routes end the session.
      const { accessToken } = await service.loginAs(ours)
      const answer = await service.call(target, {
        method,
        ...(method === 'PATCH' && { json: { role: 'viewer' } }),
        ...(path.endsWith('/confirm') && { json: { code: '123456' } }),
        token: accessToken,
        headers: { 'x-company-id': theirs.companyId },
      })
      const where = `${method} ${target}`
      expect([where, answer.status < 500]).toEqual([where, true])
      if (target !== path) expect([where, [403, 404].includes(answer.status)]).toEqual([where, true])
      const text = JSON.stringify([answer.body, answer.headers])
      const shown = marks.filter((mark) => text.includes(mark) && !target.includes(mark))
      expect([where, shown]).toEqual([where, []])
    }
  }
  expect(await rowsOf(theirs.companyId)).toEqual(before)
})

test('companies can use the same email addresses and event IDs (ASVS 8.4.1)', async () => {
  const email = 'same@company.example'
  const one = await service.addUser(ours, 'viewer', { email })
  const other = await service.addUser(theirs, 'admin', { email, password: 'another correct horse' })
  expect((await service.loginAs(one)).user).toMatchObject({ id: one.userId, role: 'viewer' })
  expect((await service.loginAs(other)).user).toMatchObject({ id: other.userId, role: 'admin' })
  expect((await service.login({ ...one, password: other.password })).status).toBe(401)
  const { rows } = await sql<{ of: string }>`
      select data->>'of' as of from events where event_id = 'shared-id' order by 1`.execute(service.db)
  expect(rows).toEqual([ours.email, theirs.email].sort().map((of) => ({ of })))
})

test("the database refuses rows about a different company's user (ASVS 8.4.1)", async () => {
  const { session } = await service.loginAs(ours)
  await expect(copySession(service, session.id, { userId: theirs.userId })).rejects.toMatchObject({
    constraint: 'sessions_company_id_user_id_fkey',
  })
  await copySession(service, session.id, { userId: ours.userId })
  const change = sql`update signing_secrets set created_by = ${theirs.userId}
      where company_id = ${ours.companyId}`.execute(service.db)
  await expect(change).rejects.toMatchObject({ constraint: 'signing_secrets_company_id_created_by_fkey' })
})

test('sessions with the same ID are separate for each company (ASVS 8.4.1)', async () => {
  const { accessToken: token, session } = await service.loginAs(ours)
  await copySession(service, session.id, { ...theirs, id: session.id })
  expect((await service.getSession({ token })).body.user.id).toBe(ours.userId)
  await service.call('/auth/logout', { token })
  const sessions = service.db.selectFrom('sessions').select(['company_id', 'end_reason'])
  const twins = await sessions.where('session_id', '=', session.id).execute()
  const reasons = Object.fromEntries(twins.map(({ company_id: id, end_reason }) => [id, end_reason]))
  expect(reasons).toEqual({ [ours.companyId]: 'logout', [theirs.companyId]: null })
})

test('primary keys of tenant tables start with the company (ASVS 8.4.1)', async () => {
  const { rows } = await sql<{ table: string; first: string }>`
      select c.conrelid::regclass::text as table, a.attname as first
      from pg_constraint c join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
      where c.contype = 'p' and c.connamespace = 'public'::regnamespace
        and c.conrelid::regclass::text not like 'kysely_%'`.execute(service.db)
  const shared = ['roles', 'plans', 'signing_keys', 'platform_clients', 'event_feed', 'rate_counters']
  // A passkey sign-in names no company before it is accepted, and a handle identifies one.
  const platform = [...shared, 'used_passkey_challenges', 'company_handles']
  const astray = rows.filter(({ table, first }) => first !== 'company_id' && !platform.includes(table))
  expect(astray).toEqual([])
  expect(rows.length).toBeGreaterThan(platform.length)
})
