import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { UsageError } from '../kit/command.ts'
import { SAMPLE_EVENT } from '../kit/events.ts'
import { openConnection, type Postgres } from '../kit/postgres.ts'
import { cpuMsOf } from '../kit/processes.ts'
import type { Gatehouse } from './services.ts'

/** Single statements, sent by pgbench: the least work of Postgres for an operation. */

export type Statement = 'look-up' | 'update' | 'insert' | 'insert of 100 rows'

const SESSIONS = 10_000
const CLIENTS = 8
const NUMBER = `\\set n random(1, ${SESSIONS})`
const ID = `('01890000-0000-7000-8000-' || lpad(to_hex(:n::int), 12, '0'))::uuid`
const EVENT_COLUMNS = 'company_id, event_id, type, occurred_at, received_at, data, feed_position'
const EVENT_ID = `:client_id::text || '-' || nextval('load_test_ids')`
const EVENT = `'${SAMPLE_EVENT.type}', '${SAMPLE_EVENT.occurredAt}', now()`

const SCRIPTS: Record<Statement, string> = {
  'look-up': `${NUMBER}
    select s.generation, s.issued_at, s.expires_at, s.ended_at, s.end_reason, a.*
    from load_test_sessions s join accounts a using (company_id, user_id)
    where s.company_id = :company::uuid and s.session_id = ${ID};`,
  update: `${NUMBER}
    update load_test_sessions set generation = generation + 1, issued_at = now(), expires_at = now(), rotated_at = now()
    where company_id = :company::uuid and session_id = ${ID} and ended_at is null;`,
  insert: `insert into load_test_events (${EVENT_COLUMNS})
    values (:company::uuid, ${EVENT_ID}, ${EVENT}, :data::json, 1);`,
  'insert of 100 rows': `insert into load_test_events (${EVENT_COLUMNS})
    select :company::uuid, ${EVENT_ID}, ${EVENT}, data, 1 from unnest(:hundred::json[]) as data;`,
}

/** Creates tables like the service's, with their indexes, in the service's database. */
export async function openStatements(
  { databaseUrl, companyId }: Gatehouse,
  { folder }: Postgres,
): Promise<void> {
  const connection = await openConnection(databaseUrl)
  try {
    await connection.query(`
      create table load_test_sessions (like sessions including all) with (fillfactor = 80);
      create table load_test_events (like events including all);
      create sequence load_test_ids cache 100`)
    await connection.query(
      `insert into load_test_sessions (company_id, session_id, user_id, kind, created_at, issued_at, expires_at,
         max_expires_at)
       select company_id, ${ID.replace(':n', 'n')}, user_id, 'token', now(), now(), now(), now()
       from generate_series(1, $2::int) n, lateral (select * from users where company_id = $1 limit 1) one`,
      [companyId, SESSIONS],
    )
    // Otherwise the planner uses the index of active sessions, and reads all sessions of the company.
    await connection.query('analyze load_test_sessions')
  } finally {
    await connection.end()
  }
  for (const [name, script] of Object.entries(SCRIPTS)) await writeFile(join(folder, `${name}.sql`), script)
}

/** Postgres's CPU time in milliseconds per statement; NaN if none ran. @throws UsageError without pgbench */
export async function measureStatement(
  statement: Statement,
  { databaseUrl, companyId }: Gatehouse,
  { pid, folder }: Postgres,
  durationMs: number,
  signal: AbortSignal,
): Promise<number> {
  const data = JSON.stringify(SAMPLE_EVENT.data)
  const hundred = `{${Array.from({ length: 100 }, () => JSON.stringify(data)).join()}}`
  const variables = Object.entries({ company: companyId, data, hundred })
  const before = cpuMsOf(pid)
  const args = [
    ...['--no-vacuum', '--protocol=prepared', `--client=${CLIENTS}`, '--jobs=1'],
    `--time=${Math.max(1, Math.round(durationMs / 1000))}`,
    `--file=${join(folder, `${statement}.sql`)}`,
    ...variables.map(([name, value]) => `--define=${name}=${value}`),
    databaseUrl,
  ]
  const running = promisify(execFile)('pgbench', args, { signal })
  const { stdout } = await running.catch((error: Error & { code?: unknown }) => {
    if (signal.aborted) return { stdout: '' }
    if (error.code === 'ENOENT')
      throw new UsageError(
        'pgbench was not found. Install it, for example with `apt-get install postgresql`.',
      )
    throw error
  })
  const usedMs = cpuMsOf(pid) - before
  const [, done] = /number of transactions actually processed: (\d+)/.exec(stdout) ?? []
  return Number(done) > 0 ? usedMs / Number(done) : Number.NaN
}
