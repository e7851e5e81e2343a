import type pg from 'pg'

/** Settings that statements rely on. Operators choose search_path, synchronous_commit, and default_transaction_read_only. */

/** In milliseconds. `server` has settings of Postgres; the rest are timeouts on our side. */
export interface Settings extends pg.PoolConfig {
  server: Record<string, number | string>
}

const COMMON = {
  client_encoding: 'utf8',
  standard_conforming_strings: 'on',
  array_nulls: 'on',
  // pg and our casts to text rely on these formats.
  datestyle: 'iso',
  intervalstyle: 'postgres',
  timezone: 'utc',
  bytea_output: 'hex',
  extra_float_digits: 1,
  // Statements decide by rows committed a moment ago. Stricter levels fail instead.
  default_transaction_isolation: "'read committed'",
  statement_timeout: 0,
  lock_timeout: 0,
  idle_in_transaction_session_timeout: 0,
  idle_session_timeout: 0,
} as const

// The planner would scan and hash small tables, and keep these plans when they grow. It may do so only without an index.
const PLANS = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  // The cost of a disallowed plan would make Postgres compile it, which takes longer than running it.
  jit: 'off',
  plan_cache_mode: 'force_generic_plan',
} as const

// 9 s at most per statement. Unlike the server's timeouts, `query_timeout` also ends a commit that no standby acknowledges.
export const forRequests = (scale: number): Settings => ({
  connectionTimeoutMillis: 3_000 * scale,
  query_timeout: 6_000 * scale,
  server: {
    lock_timeout: 2_000 * scale,
    statement_timeout: 5_000 * scale,
    idle_in_transaction_session_timeout: 10_000 * scale,
    ...PLANS,
  },
})

/** For two companies at the limit of `auditReads`. */
export const AUDIT_POOL_SIZE = 4

export const forAuditReads = (scale: number): Settings => ({
  connectionTimeoutMillis: 2_000 * scale,
  query_timeout: 3_000 * scale,
  server: { lock_timeout: 2_000 * scale, statement_timeout: 2_000 * scale, ...PLANS },
})

export const FOR_PROBES: Settings = {
  connectionTimeoutMillis: 1_000,
  query_timeout: 1_000,
  server: { lock_timeout: 1_000, statement_timeout: 1_000 },
}

/** A migration that waits for a table delays all later requests, so it gives up and retries. Its work may take any time. */
export const FOR_MAINTENANCE: Settings = { server: { lock_timeout: 5_000 } }

export function toStatements(server: Settings['server']): string {
  const settings = Object.entries({ ...COMMON, ...server })
  // Only Postgres 17 and newer have this setting.
  const timeout = `select set_config('transaction_timeout', '0', false)
    where current_setting('transaction_timeout', true) is not null`
  return [...settings.map(([name, value]) => `set ${name} = ${value}`), timeout].join('; ')
}
