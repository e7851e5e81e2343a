/** What went wrong at the database, told by SQLSTATE (Postgres, appendix A) and never by a text's wording. */

const NETWORK = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
])

/** pg gives these no code. */
const POOL_MESSAGES =
  /^(timeout exceeded when trying to connect|Connection terminated|Query read timeout|Client has encountered a connection error|Client was closed|Connection ended|read ECONN)/i

/**
 * Classes: 08 connection, 40 rollback, 53 resources, 55 prerequisite, 57 intervention, 58 system; 25006
 * read-only; 0A000 a prepared statement that a migration has overtaken.
 */
const UNAVAILABLE = /^(08|40|53|55|57|58)...$|^(25006|0A000)$/

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** The name of the violated constraint, if the error is a violation. */
export function constraintOf(error: unknown): string | undefined {
  return error instanceof Error && 'constraint' in error ? String(error.constraint) : undefined
}

/** Whether it is a passing state of the database, not of the request: answered 503, may be retried. */
export function isUnavailable(error: unknown): boolean {
  const code = codeOf(error)
  if (code) return NETWORK.has(code) || UNAVAILABLE.test(code)
  return error instanceof Error && POOL_MESSAGES.test(error.message)
}

/**
 * Classes 22 (data) and 23 (constraints), a lock that somebody holds (55P03) and a deadlock (40P01): some row
 * is at fault, so others deserve a statement without it.
 */
export function isItemFault(error: unknown): boolean {
  return /^(2[23]...|55P03|40P01)$/.test(codeOf(error) ?? '')
}

/** Whether the connection must not be used again: its answer may still come, or it is behind the times. */
export function isPoisonous(error: unknown): boolean {
  return (
    /^(25006|0A000)$/.test(codeOf(error) ?? '') ||
    (error instanceof Error && error.message === 'Query read timeout')
  )
}
