import type pg from 'pg'

/**
 * Settings of each connection. Roles and databases can have any defaults, so what our statements rely on is set here. Left to
 * the operator are search_path, synchronous_commit, and default_transaction_read_only, by which a server refuses writes.
 */

/** In milliseconds. `server` are settings of Postgres; the rest are waits on this side. */
export interface Settings extends pg.PoolConfig {
  server: Record<string, number | string>
}

const COMMON = {
  client_encoding: 'utf8',
  standard_conforming_strings: 'on',
  array_nulls: 'on',
  // The forms in which pg, and statements that cast to text, write values.
  datestyle: 'iso',
  intervalstyle: 'postgres',
  timezone: 'utc',
  bytea_output: 'hex',
  extra_float_digits: 1,
  // Statements decide by rows that others have just committed. Stricter levels fail instead.
  default_transaction_isolation: "'read committed'",
  // For connections without a limit of their own.
  statement_timeout: 0,
  lock_timeout: 0,
  idle_in_transaction_session_timeout: 0,
  idle_session_timeout: 0,
} as const

// Requests look up few rows by key. While tables are small, the planner would scan and hash them, and keep such plans when
// they have grown: so it may do that only where there is no index.
const PLANS = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  // Else the price of a disallowed plan makes Postgres compile it, which takes longer than running it.
  jit: 'off',
  plan_cache_mode: 'force_generic_plan',
} as const

// The waits of a statement end within 9 s together; its request is answered sooner (http/deadline.ts). That for its answer is longer
// than the server's, which does not hold for a commit that no standby acknowledges.
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

/** Two companies at the limit of `auditReads`. */
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

/** A migration that waits for a table delays every later request, so it gives up and tries again. Its work may take any time. */
export const FOR_MAINTENANCE: Settings = { server: { lock_timeout: 5_000 } }

/** For one message without parameters. */
export function toStatements(server: Settings['server']): string {
  const settings = Object.entries({ ...COMMON, ...server })
  // Postgres 17 and newer have it.
  const timeout = `select set_config('transaction_timeout', '0', false)
    where current_setting('transaction_timeout', true) is not null`
  return [...settings.map(([name, value]) => `set ${name} = ${value}`), timeout].join('; ')
}
