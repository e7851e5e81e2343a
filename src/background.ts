import type { Registry } from 'prom-client'
import type { Config } from './config.ts'
import type { Connection } from './database/connect.ts'
import type { Log } from './http/logs.ts'
import { openMail } from './mail/outgoing.ts'
import { createMailComposer } from './member/compose-mail.ts'
import { pruneAcrossCompanies } from './operator/housekeeping.ts'
import { randomFraction, type System } from './system.ts'

/** What a machine does once, however many processes answer its requests: it sends mail and prunes. */

const PRUNE_EVERY_MS = 3_600_000

interface Context {
  config: Config
  db: Connection['db']
  system: System
  registry: Registry
  log: Log
}

interface Background {
  /** Begins nothing new. Resolves when the mail in progress was sent or handed back. */
  stop(): Promise<void>
}

export function startBackground(context: Context): Background {
  const mail = openMail({ ...context, compose: createMailComposer(context) })
  mail.start()
  const stopPruning = startPruning(context)
  return {
    stop() {
      stopPruning()
      return mail.stop()
    },
  }
}

/** Prunes once an hour. The first time is random, so that machines do not prune all at once. */
function startPruning({ config, db, system, log }: Context): () => void {
  const stopping = new AbortController()
  async function prune(): Promise<void> {
    setTimeout(prune, PRUNE_EVERY_MS).unref()
    try {
      const pruned = await pruneAcrossCompanies({ db, config, system }, system.now(), stopping.signal)
      log.info({ pruned }, 'housekeeping')
    } catch (error) {
      log.warn({ err: error }, 'housekeeping failed')
    }
  }
  setTimeout(prune, PRUNE_EVERY_MS * randomFraction(system)).unref()
  return () => stopping.abort()
}
