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

/** Classes: 08 connection, 40 rollback, 53 resources, 55 prerequisite, 57 intervention, 58 system; 25006 read-only. */
const UNAVAILABLE = /^(08|40|53|55|57|58)...$|^25006$/

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

/** Classes 22 (data) and 23 (constraints): some row is at fault, so others deserve a statement without it. */
export function isItemFault(error: unknown): boolean {
  return /^2[23]...$/.test(codeOf(error) ?? '')
}

/** Whether the connection must not be used again: its answer may still come, or its server became read-only. */
export function isPoisonous(error: unknown): boolean {
  return codeOf(error) === '25006' || (error instanceof Error && error.message === 'Query read timeout')
}
