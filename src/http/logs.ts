import type { FastifyLoggerOptions } from 'fastify'
import { type DestinationStream, type LoggerOptions, pino } from 'pino'
import { codeOf, constraintOf } from '../database/faults.ts'

/** Log lines: JSON, times in UTC, and of an error nothing in which a client's data could be (ASVS 16.2). */
export function logSettings(level: string, stream?: DestinationStream): FastifyLoggerOptions & LoggerOptions {
  return {
    level,
    ...(stream && { stream }),
    timestamp: pino.stdTimeFunctions.isoTime,
    base: { service: 'gatehouse' },
    serializers: { err: describeError },
  }
}

function describeError(error: unknown) {
  if (!(error instanceof Error)) return { type: typeof error, message: '', stack: '' }
  const code = codeOf(error)
  // The texts of the database's errors quote values; a code and a constraint say enough.
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

/**
 * Standard output, written in blocks, since each request would feel a system call for its line. A line is out
 * after a tenth of a second at the latest; call `end` before the process exits. An output that is broken or
 * full blocks nothing: lines that it does not take are lost, and what must not be lost is audited.
 */
export function createLogStream() {
  const stream = pino.destination({
    dest: 1,
    sync: true,
    minLength: 8_192,
    periodicFlush: 100,
    maxLength: 1_048_576,
  })
  stream.on('error', () => {})
  return stream
}
