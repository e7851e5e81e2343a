import type { FastifyLoggerOptions } from 'fastify'
import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino'
import { codeOf, constraintOf } from '../database/faults.ts'

/** Log lines: JSON, times in UTC, and no client data from errors (ASVS 16.2). */
export function logSettings(level: string, stream?: DestinationStream): FastifyLoggerOptions & LoggerOptions {
  return {
    level,
    ...(stream && { stream }),
    timestamp: pino.stdTimeFunctions.isoTime,
    base: { service: 'gatehouse' },
    serializers: { err: describeError },
  }
}

/** What lines are written to. */
export type Log = Pick<Logger, 'info' | 'warn' | 'error'>

/** A logger for what happens outside of requests. */
export function createLog(level: string, stream: DestinationStream): Log {
  return pino(logSettings(level), stream)
}

function describeError(error: unknown) {
  if (!(error instanceof Error)) return { type: typeof error, message: '', stack: '' }
  const code = codeOf(error)
  // Messages of database errors quote values. The code and the constraint are enough.
  const isFromDatabase = code !== undefined && /^[0-9A-Z]{5}$/.test(code)
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  return {
    type: error.name,
    message: isFromDatabase ? '' : error.message,
    stack: frames.join('\n'),
    code,
    constraint: constraintOf(error),
  }
}
