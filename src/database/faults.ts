/** Classifies errors of Postgres by SQLSTATE (Postgres, appendix A), never by their message. */

const NETWORK = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
])

/** Errors that pg itself raises. They have no code, only a message. */
const POOL_MESSAGES =
  /^(timeout exceeded when trying to connect|Connection terminated|Query read timeout|Client has encountered a connection error|Client was closed|Connection ended|read ECONN)/i

/**
 * Classes: 08 connection, 40 rollback, 53 resources, 55 object state, 57 operator intervention, 58 system.
 * Codes: 25006 read-only; 0A000 a prepared statement whose tables a migration has changed.
 */
const UNAVAILABLE = /^(08|40|53|55|57|58)...$|^(25006|0A000)$/

/** The database has answered nothing for a while, not even a probe: see silence.ts. */
export class SilentDatabaseError extends Error {
  override message = 'The database does not answer'
}

/** Whether a unique constraint has refused a row. */
export function isUniqueViolation(error: unknown): boolean {
  return codeOf(error) === '23505'
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** The name of the violated constraint, if the error is a violation. */
export function constraintOf(error: unknown): string | undefined {
  return error instanceof Error && 'constraint' in error && typeof error.constraint === 'string'
    ? error.constraint
    : undefined
}

/** Whether the error is a temporary state of the database, not a fault of the request. It is answered 503. */
export function isUnavailable(error: unknown): boolean {
  const code = codeOf(error)
  if (code) return NETWORK.has(code) || UNAVAILABLE.test(code)
  return error instanceof SilentDatabaseError || (error instanceof Error && POOL_MESSAGES.test(error.message))
}

/** Whether a wait of this side for an answer or a connection has ended. That of a statement has a code of the server. */
export function isUnanswered(error: unknown): boolean {
  return codeOf(error) === undefined && error instanceof Error && /time(d )?out/i.test(error.message)
}

/**
 * Whether one item of a statement can have caused the error, so that the others can succeed without it. That is
 * every SQLSTATE but those that concern the connection, the server, or the statement whatever its items: classes
 * 08, 25, 28, 3D, 42, 53 and 58, shutdown and crash (57P…), a prepared statement that is out of date (0A000), and
 * a result that is not known (40003). The first characters exclude the codes of Node, such as EPIPE.
 */
export function isItemFault(error: unknown): boolean {
  return /^(?!08|25|28|3D|42|53|58|57P|0A000|40003)[0-9HPX][0-9A-Z]{4}$/.test(codeOf(error) ?? '')
}

/** Whether no other statement can succeed at the moment either. */
export function isOutage(error: unknown): boolean {
  return isUnavailable(error) && !isItemFault(error)
}

/** Whether to close the connection: an answer is outstanding, or the server or a plan is out of date. */
export function isPoisonous(error: unknown): boolean {
  return (
    /^(25006|0A000)$/.test(codeOf(error) ?? '') ||
    error instanceof SilentDatabaseError ||
    (error instanceof Error && error.message === 'Query read timeout')
  )
}
