import { openPostgres, type Postgres } from '../database/postgres.ts'
import { joinTarget } from './join-target.ts'
import { startTarget } from './start-target.ts'
import type { Target } from './target.ts'

const MANY_SESSIONS = 100_000

/** The target with this number of sessions, or with the default number. */
export type FindTarget = (sessions?: number) => Promise<Target>

interface Options {
  /** Of a service that already runs; without it, services are started. */
  url: string | undefined
  /** Default number of sessions. */
  sessions: number
  /** Processes that answer, of services that are started. */
  workers: number
  signal: AbortSignal
}

/** Opens each target when it is first needed; scenarios share them until the cleanup. */
export function openTargets(
  { url, sessions, workers, signal }: Options,
  cleanup: AsyncDisposableStack,
): FindTarget {
  const targets = new Map<number, Promise<Target>>()
  let postgres: Promise<Postgres> | undefined
  async function open(count: number): Promise<Target> {
    if (url !== undefined) return await joinTarget(url, count, signal, cleanup)
    if (count > MANY_SESSIONS) console.error(`creating ${count.toLocaleString('en')} sessions`)
    postgres ??= openPostgres(cleanup)
    return await startTarget(await postgres, { sessions: count, workers }, cleanup)
  }
  return (count = sessions) => {
    const target = targets.get(count) ?? open(count)
    targets.set(count, target)
    return target
  }
}
