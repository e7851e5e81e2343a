import { Gauge, type Registry } from 'prom-client'
import type { Context } from '../http/context.ts'
import type { Log } from '../http/logs.ts'
import { openMail } from '../mail/sender.ts'
import { createMailComposer } from '../member/compose-mail.ts'
import { pruneAcrossCompanies, pruneEventsAcrossCompanies } from '../operator/retention.ts'
import { showFeedLag } from '../platform/feed.ts'
import { settleLapsedAcrossCompanies } from '../sign-in/lapsed.ts'
import { randomFraction } from '../system.ts'

/** Jobs that run once per machine, however many processes serve requests. */

const PRUNE_EVERY_MS = 3_600_000
const SETTLE_EVERY_MS = 60_000
/** Thousands of events can arrive per second. Frequent runs keep each deletion small. */
const PRUNE_EVENTS_EVERY_MS = 60_000

export function startBackground(
  context: Pick<Context, 'config' | 'db' | 'system'> & { registry: Registry; log: Log },
) {
  const mail = openMail({ ...context, compose: createMailComposer(context) })
  mail.start()
  const { config, db, system, log } = context
  const stopping = new AbortController()
  const lastSuccess = new Gauge({
    name: 'gatehouse_housekeeping_last_success_timestamp_seconds',
    help: 'Unix time of the last housekeeping run without a failure; 0 before the first one',
    registers: [context.registry],
  })
  showFeedLag(context.registry, context)
  let settling = Promise.resolve()
  repeat(PRUNE_EVERY_MS, 'housekeeping failed', async () => {
    const pruned = await pruneAcrossCompanies({ db, config, system }, system.now(), stopping.signal)
    lastSuccess.set(system.now() / 1000)
    log.info({ pruned }, 'housekeeping completed')
  })
  repeat(SETTLE_EVERY_MS, 'settling unfinished sign-ins failed', async () => {
    settling = settleLapsedAcrossCompanies({ db, system }, system.now(), stopping.signal)
    await settling
  })
  repeat(PRUNE_EVENTS_EVERY_MS, 'deleting expired events failed', async () => {
    await pruneEventsAcrossCompanies({ db, config }, system.now(), stopping.signal)
  })
  /** The first delay is random, so that machines do not all run at the same time. */
  function repeat(everyMs: number, failure: string, work: () => Promise<void>): void {
    async function run(): Promise<void> {
      if (stopping.signal.aborted) return
      setTimeout(run, everyMs).unref()
      await work().catch((error) => log.warn({ err: error }, failure))
    }
    setTimeout(run, everyMs * randomFraction(system)).unref()
  }
  return {
    async stop() {
      stopping.abort()
      await Promise.all([mail.stop(), settling.catch(() => {})])
    },
  }
}
