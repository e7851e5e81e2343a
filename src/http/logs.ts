import type { FastifyInstance, FastifyLoggerOptions } from 'fastify'
import fp from 'fastify-plugin'
import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino'
import { codeOf, constraintOf } from '../database/faults.ts'
import type { System } from '../system.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Warns the operator. Any request can be the cause, so each message is logged at most once per minute. */
    notice(message: string, details: Record<string, unknown>): void
  }
}

/** JSON, times in UTC, and no client data from errors (ASVS 16.2). */
export function logSettings(level: string, stream?: DestinationStream): FastifyLoggerOptions & LoggerOptions {
  return {
    level,
    ...(stream && { stream }),
    timestamp: pino.stdTimeFunctions.isoTime,
    base: { service: 'gatehouse' },
    serializers: { err: describeError },
  }
}

export type Log = Pick<Logger, 'info' | 'warn' | 'error' | 'fatal'>

export function createLog(level: string, stream: DestinationStream): Log {
  return pino(logSettings(level), stream)
}

/** Text for people. A request becomes `12:00:00 POST /api/auth/login 401 5 ms invalid_credentials wrong_password`. */
export function toText(lines: string): string {
  return lines.replace(/^\{"level":.*$/gm, (line) => {
    const { level, time, service, msg, err, ...fields } = JSON.parse(line)
    const { method, route, status, ms, code, reason, limit } = fields
    const request = [method, route, status, ms && `${Math.round(ms)} ms`, code, reason, limit]
    const readable = Object.entries(fields).filter(([name]) => !name.endsWith('Id'))
    const details = readable.map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    const clock = new Date(time).toTimeString().slice(0, 8)
    const severity = level >= 40 && pino.levels.labels[level]?.toUpperCase()
    const cause = err
      ? `\n  ${joinWords([err.type, err.code, err.constraint, err.message])}\n${err.stack}`
      : ''
    return joinWords([clock, severity, ...(msg ? [msg, ...details] : request)]) + cause
  })
}

function joinWords(words: unknown[]): string {
  return words.filter(Boolean).join(' ')
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

const NOTICE_PAUSE_MS = 60_000

async function plugin(app: FastifyInstance, { system }: { system: System }): Promise<void> {
  const lastAt = new Map<string, number>()
  app.decorate('notice', (message, details) => {
    const now = system.now()
    if (Math.abs(now - (lastAt.get(message) ?? Number.NEGATIVE_INFINITY)) < NOTICE_PAUSE_MS) return
    lastAt.set(message, now)
    app.log.warn(details, message)
  })
}

export const noticesPlugin = fp(plugin, { name: 'notices' })
