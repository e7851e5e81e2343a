import { setTimeout as sleep } from 'node:timers/promises'

/** Classifies errors by SQLSTATE (Postgres, appendix A). pg's own errors have only a message. */

const NETWORK =
  /^(ECONN(REFUSED|RESET|ABORTED)|E(HOST|NET)(UNREACH|DOWN)|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_(AGAIN|FAIL)|EADDRNOTAVAIL|EMFILE)$/

const POOL_MESSAGES =
  /^(timeout exceeded when trying to connect|Connection terminated|Query read timeout|Client has encountered a connection error|Client was closed|Connection ended|read ECONN)/i

// 08 connection, 40 rollback, 53 resources, 55 object state, 57 operator, 58 system, 25006 read-only, 0A000 stale statement.
const UNAVAILABLE = /^(08|40|53|55|57|58)...$|^(25006|0A000)$/

export class SilentDatabaseError extends Error {
  override message = 'The database does not respond'
}

export class StandbyError extends Error {
  override message = 'The database is a standby'
}

/** A failure to connect, for any reason: the password, a certificate, a missing database. */
export class ConnectionError extends Error {
  override name = 'ConnectionError'
  readonly code: string | undefined

  constructor(cause: Error) {
    super(cause.message, { cause })
    this.code = codeOf(cause)
  }
}

export function isUniqueViolation(error: unknown): boolean {
  return codeOf(error) === '23505'
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

export function constraintOf(error: unknown): string | undefined {
  return error instanceof Error && 'constraint' in error && typeof error.constraint === 'string'
    ? error.constraint
    : undefined
}

export function isUnavailable(error: unknown): boolean {
  return error instanceof ConnectionError || isPassing(error)
}

/** Whether the fault can pass without an operator. */
export function isPassing(error: unknown): boolean {
  if (error instanceof ConnectionError) return isPassing(error.cause)
  const code = codeOf(error)
  if (code) return NETWORK.test(code) || UNAVAILABLE.test(code)
  if (error instanceof SilentDatabaseError || error instanceof StandbyError) return true
  return error instanceof Error && POOL_MESSAGES.test(error.message)
}

/** A timeout on our side. Timeouts of the server have a code. */
function isUnanswered(error: unknown): boolean {
  return codeOf(error) === undefined && error instanceof Error && /time(d )?out/i.test(error.message)
}

export function isTooSlow(error: unknown): boolean {
  return codeOf(error) === '57014' || isUnanswered(error)
}

export function isItemFault(error: unknown): boolean {
  if (error instanceof ConnectionError) return false
  // Excludes SQLSTATEs of the connection (08, 25, 28, 3D), the server (53, 57P, 58), and the statement itself (42, 0A000), and
  // an unknown result (40003). The first character excludes Node's codes, such as EPIPE.
  return /^(?!08|25|28|3D|42|53|58|57P|0A000|40003)[0-9HPX][0-9A-Z]{4}$/.test(codeOf(error) ?? '')
}

export function isOutage(error: unknown): boolean {
  return isUnavailable(error) && !isItemFault(error)
}

/** Whether to close the connection: a reply is outstanding, or the server or a plan is out of date. */
export function isPoisonous(error: unknown): boolean {
  return (
    /^(25006|0A000)$/.test(codeOf(error) ?? '') ||
    error instanceof SilentDatabaseError ||
    (error instanceof Error && error.message === 'Query read timeout')
  )
}

const PAUSE_MS = 500

/** @throws SilentDatabaseError if no connection gets a reply */
export type AwaitAnswer = <Result>(ask: () => Promise<Result>) => Promise<Result>

/** While the database is silent, statements fail immediately. Otherwise, each would wait for its whole timeout. */
export function watchForSilence(probe: () => Promise<void>, patienceMs: number): AwaitAnswer {
  const waiting = new Set<(error: Error) => void>()
  let isSilent = false
  let isWatching = false

  async function watch(): Promise<void> {
    if (isWatching) return
    isWatching = true
    // Twice, because the first probe can lose its connection to a healthy database.
    isSilent = !(await isAnswering()) && !(await isAnswering())
    if (isSilent) for (const fail of waiting) fail(new SilentDatabaseError())
    while (isSilent) {
      await sleep(PAUSE_MS, undefined, { ref: false })
      isSilent = !(await isAnswering())
    }
    isWatching = false
  }

  async function isAnswering(): Promise<boolean> {
    return await probe().then(
      () => true,
      (error) => !isUnanswered(error),
    )
  }

  return async (ask) => {
    if (isSilent) throw new SilentDatabaseError()
    const { promise: silence, reject } = Promise.withResolvers<never>()
    const impatience = setTimeout(watch, patienceMs)
    waiting.add(reject)
    try {
      return await Promise.race([ask(), silence])
    } finally {
      clearTimeout(impatience)
      waiting.delete(reject)
    }
  }
}
