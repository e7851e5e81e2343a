import { sql } from 'kysely'
import pg from 'pg'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import { connect } from '../../src/database/connect.ts'
import { whenDone } from '../support/cleanup.ts'
import { codeAt, openFactorService } from '../support/second-factors.ts'
import { PASSWORD } from '../support/test-service.ts'

/** Plans of the statements on a request's path must not depend on statistics or table sizes. */

const service = await openFactorService()
const admin = await service.addCompany()
const { maintenance, close } = connect({ url: service.url, poolSize: 1 })
whenDone(close)
const secret = await service.newSecret(admin)
const cookieMode = { 'x-session-mode': 'cookie' }
const FILLED = [
  'companies',
  'subscriptions',
  'users',
  'sessions',
  'events',
  'signing_secrets',
  'second_factors',
  'recovery_codes',
  'second_factor_challenges',
  'audit_addresses',
  'audit_days',
  'used_passkey_challenges',
  'refused_sign_ins',
  'service_sign_ins',
  'service_passwords',
  'watched_events',
]

/** 50 companies, 5,000 users with factors and challenges, 40,000 sessions. With fewer, Postgres reads some by company. */
async function fill(): Promise<void> {
  for (const table of FILLED)
    await sql`alter table ${sql.table(table)} set (autovacuum_enabled = false)`.execute(maintenance)
  const id = (name: string) => sql.raw(`md5('${name}' || n)::uuid`)
  const insert = [
    sql`insert into companies (company_id, name, status, created_at)
      select ${id('c')}, 'Company', 'active', now() from generate_series(1, 50) n`,
    sql`insert into subscriptions (company_id, plan, status, current_period_end)
      select ${id('c')}, 'growth', 'active', now() from generate_series(1, 50) n`,
    sql`insert into users (company_id, user_id, email, name, role, assignments, status, password_hash, created_at)
      select md5('c' || (n % 50 + 1))::uuid, ${id('u')}, n || '@company.example', 'User', 'viewer', '{}', 'active', '', now()
      from generate_series(1, 5000) n`,
    sql`insert into sessions (company_id, session_id, user_id, kind, cookie_hash, created_at, issued_at, expires_at, max_expires_at)
      select md5('c' || (n % 5000 % 50 + 1))::uuid, ${id('s')}, md5('u' || nullif(n % 5000, 0))::uuid,
        case n % 2 when 0 then 'token' else 'cookie' end, case n % 2 when 1 then sha256(n::text::bytea) end,
        now(), now(), now() + interval '1 day', now() + interval '1 day'
      from generate_series(1, 40000) n where n % 5000 > 0`,
    sql`insert into second_factors (company_id, factor_id, user_id, kind, name, created_at, confirmed_at, credential_id,
        public_key, sign_count, backup_eligible, transports)
      select md5('c' || (n % 50 + 1))::uuid, ${id('f')}, ${id('u')}, 'passkey', 'Key', now(), now(), sha256(n::text::bytea),
        '', 0, true, '{}'
      from generate_series(1, 5000) n`,
    sql`insert into service_passwords (company_id, user_id, password_epoch, digest)
      select md5('c' || (n % 50 + 1))::uuid, ${id('u')}, 1, sha256(n::text::bytea) from generate_series(1, 5000) n`,
    sql`insert into recovery_codes (company_id, user_id, digest, key_id)
      select md5('c' || (n % 5000 % 50 + 1))::uuid, md5('u' || (n % 5000))::uuid, sha256(n::text::bytea), 'k'
      from generate_series(1, 10000) n where n % 5000 > 0`,
    sql`insert into second_factor_challenges (company_id, user_id, challenge_hash, purpose, mode, password_proven, user_epoch,
        company_epoch, network, ip_address, created_at, expires_at)
      select md5('c' || (n % 5000 % 50 + 1))::uuid, md5('u' || (n % 5000))::uuid, sha256(n::text::bytea), 'sign_in', 'token',
        true, 0, 0, '192.0.2.1', '192.0.2.1', now(), now()
      from generate_series(1, 8000) n where n % 5000 > 0`,
    sql`insert into used_passkey_challenges (challenge_hash, expires_at)
      select sha256(n::text::bytea), now() from generate_series(1, 5000) n`,
    sql`insert into refused_sign_ins (company_id, minute, network, kind, count, last_email, last_at)
      select md5('c' || (n % 50 + 1))::uuid, now() - n * interval '2 minutes', '192.0.2.1', '', 1, '', now()
      from generate_series(1, 10000) n`,
    sql`insert into service_sign_ins (company_id, minute, user_id, network, audit_id, count, superseded, ip_address)
      select md5('c' || (n % 50 + 1))::uuid, now() - n * interval '2 minutes', md5('u' || n % 5000)::uuid, '192.0.2.1', ${id('a')},
        1, 0, '192.0.2.1'
      from generate_series(1, 10000) n`,
    sql`insert into audit_events (company_id, audit_id, occurred_at, action, outcome, actor)
      select md5('c' || (n % 50 + 1))::uuid, ${id('a')}, now() - n * interval '2 minutes', 'a' || n % 20, 'done', 'u' || n % 5000
      from generate_series(1, 50000) n`,
    sql`insert into watched_events (company_id, event_id, received_at, is_truncated)
      select md5('c' || (n % 50 + 1))::uuid, n::text, now(), false from generate_series(1, 2500) n`,
    sql`insert into events (company_id, event_id, type, received_at, data)
      select md5('c' || (n % 50 + 1))::uuid, n::text, 'type', now(), '{}' from generate_series(1, 10000) n`,
  ]
  for (const statement of insert) await statement.execute(maintenance)
}

/** Texts of the statements, by request. */
async function collect(): Promise<[what: string, text: string][]> {
  const spy = vi.spyOn(pg.Client.prototype, 'query')
  const collected: [string, string][] = []
  async function during(what: string, act: () => Promise<{ status: number }>, status: number): Promise<void> {
    spy.mockClear()
    expect(await act()).toMatchObject({ status })
    const texts = spy.mock.calls.map(([query]) => String(Object(query).text))
    for (const text of new Set(texts)) if (text.includes('$1')) collected.push([what, text])
  }
  const event = { id: 'e1', type: 'user.created', data: {} }
  const wrong = { ...admin, password: `not ${PASSWORD}` }
  const { accessToken: token, refreshToken } = await service.loginAs(admin)
  const cookie = await service.cookieOf(admin)
  await during('sign-in', () => service.login(admin), 200)
  await during('sign-in by cookie', () => service.login(admin, { headers: cookieMode }), 200)
  await during('wrong password', () => service.login(wrong), 401)
  const { id, ...server } = (
    await service.call('/auth/members', { token, json: { name: 'W', role: 'viewer' } })
  ).body
  await during('sign-in of a service account', () => service.login({ ...admin, ...server }), 200)
  const unknown = { ...server, password: server.password.replaceAll(/[a-z]/g, 'x').replace('xxx_', 'gsp_') }
  await during('wrong service password', () => service.login({ ...admin, ...unknown }), 401)
  const replacing = { token, json: { previousValidSeconds: 60 } }
  await during('next service password', () => service.call(`/auth/members/${id}/password`, replacing), 200)
  await during('session check', () => service.getSession({ token }), 200)
  await during('session check by cookie', () => service.getSession({ cookie }), 200)
  await during('refresh', () => service.refresh(refreshToken), 200)
  await during('list of sessions', () => service.call('/auth/sessions', { method: 'GET', token }), 200)
  const other = await service.loginAs(admin)
  const end = { method: 'DELETE', token }
  await during('end of a session', () => service.call(`/auth/sessions/${other.session.id}`, end), 204)
  await during('logout', () => service.call('/auth/logout', { token }), 204)
  await during('logout by cookie', () => service.call('/auth/logout?scope=all', { cookie }), 204)
  await during('event', () => service.send(admin.companyId, secret, event), 202)
  await during('the same event', () => service.send(admin.companyId, secret, event), 202)
  const events = [event, { ...event, id: 'e2' }]
  await during('several events', () => service.send(admin.companyId, secret, { events }), 202)
  const { accessToken: reader } = await service.loginAs(admin)
  const read = (path: string) => () => service.call(`/auth/audit${path}`, { method: 'GET', token: reader })
  const byOutcome = ['', '&action=invite', '&actor=operator'].map((more) => `outcome=raced${more}`)
  const bySubject = ['', '&action=invite', '&outcome=refused'].map((more) => `subject=${admin.userId}${more}`)
  const byEmail = ['subject=bob@else.example', 'subject=bob@else.example&actor=operator&action=invite']
  const byOthers = ['action=invite', 'actor=operator', 'actor=operator&action=invite']
  for (const filter of [...byOthers, ...byOutcome, ...bySubject, ...byEmail])
    await during(`the audit trail by ${filter}`, read(`?${filter}`), 200)
  const watch = () => service.call('/auth/events', { method: 'GET', token: reader })
  await during('the start of a watch', watch, 200)
  await during('received events', watch, 200)
  const next = { ...event, id: 'e3' }
  await during('event of a watched company', () => service.send(admin.companyId, secret, next), 202)
  await during('the days of the audit trail', read('/daily'), 200)
  const { accessToken: later } = await service.loginAs(admin)
  const change = { currentPassword: PASSWORD, newPassword: `${PASSWORD} anew` }
  await during(
    'change of password',
    () => service.call('/auth/password/change', { token: later, json: change }),
    204,
  )
  const code = () => codeAt(byTotp.secret, service.clock.now())
  await during('sign-in that requires a second factor', () => service.login(byTotp), 401)
  const { challenge } = await service.begin(byTotp)
  const second = (json: object) => () => service.complete({ challenge, ...json })
  await during('a wrong code', second({ method: 'totp', code: '000000' }), 401)
  await during('a correct code', second({ method: 'totp', code: code() }), 200)
  const again = await service.begin(byTotp)
  const recovery = { challenge: again.challenge, method: 'recovery_code', code: byTotp.recoveryCodes?.[0] }
  await during('a recovery code', () => service.complete(recovery), 200)
  const asked = await service.call('/auth/login/passkey/options')
  const response = byPasskey.authenticator.get(asked.body.passkeyOptions)
  const json = { challenge: asked.body.challenge, response }
  await during('sign-in by passkey', () => service.call('/auth/login/passkey', { json }), 200)
  const own = { method: 'GET', token: byTotp.token }
  await during('list of second factors', () => service.call('/auth/second-factors', own), 200)
  spy.mockRestore()
  return collected
}

interface Node {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Index Cond'?: string
  Plans?: Node[]
}

const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)]

/** About one row per month. A statement reads them only once for all its items. */
const FEW_ROWS = 'signing_keys'
/** Tables with one row per company, its emails of a few days, and its 50 latest events. */
const OF_COMPANY = /^(?:companies|subscriptions|signing_secrets|mail_outbox|watched_events)$/
const KEYS =
  /\b(?:session_id|user_id|cookie_hash|email|event_id|digest|counter|token_hash|challenge_hash|credential_id|minute|action|actor|outcome|subject|audit_id|day)\b/

/** Whether a part of a plan reads or hashes more rows than requested. */
function isCostly({
  'Node Type': type,
  'Index Name': index = '',
  // A bitmap's part has only the index.
  'Relation Name': table = index.replace('_pkey', ''),
  'Index Cond': condition,
}: Node): boolean {
  if (table === FEW_ROWS) return false
  if (/Seq Scan|Hash Join|Merge Join/.test(type)) return true
  // An index on only the company reads all its rows.
  return condition?.includes('company_id') === true && !OF_COMPANY.test(table) && !KEYS.test(condition)
}

/** The costly parts of a statement's plan, with the settings of requests. */
async function costlyParts(text: string): Promise<Node[]> {
  const explained = sql<{
    'QUERY PLAN': [{ Plan: Node }]
  }>`${sql.raw(`explain (generic_plan, format json) ${text}`)}`
  const { rows } = await explained.execute(service.db)
  return (rows[0]?.['QUERY PLAN'] ?? []).flatMap(({ Plan }) => nodesOf(Plan)).filter(isCostly)
}

const byTotp = await service.personWithTotp(admin)
const byPasskey = await service.personWithPasskey(admin)
// After this, every statement belongs to a request.
for (const sender of service.senders) await sender.stop()
const requests = await collect()
beforeAll(fill)

describe.each(['never analyzed', 'analyzed'])('with tables that are %s', (state) => {
  beforeAll(async () => {
    if (state === 'analyzed') await sql`analyze`.execute(maintenance)
  })

  test.each(requests)('%s reads rows only by key', async (_what, text) => {
    expect(await costlyParts(text)).toEqual([])
  })
})
