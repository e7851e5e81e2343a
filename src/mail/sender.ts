import { setTimeout as sleep } from 'node:timers/promises'
import { Counter, type Registry } from 'prom-client'
import type { Config } from '../config/config.ts'
import type { Log } from '../http/logs.ts'
import { showStored } from '../http/metrics.ts'
import { type Delivery, type DeliveryOptions, deliver } from './delivery.ts'
import { type DueMail, readBacklogAcrossCompanies, takeDueMailsAcrossCompanies } from './repository.ts'
import { MAX_CONNECTIONS, openTransport } from './transport.ts'

/** An email is sent once, unless an instance dies after the mail server accepts it and before that is stored. */

/** Polling an empty index costs Postgres about 30 µs, so new email needs no signal. */
const POLL_MS = 250
const LEASE_MS = 60_000
/** For the mail server's reply. Well below the lease. */
const ATTEMPT_MS = 40_000
/** When the last try to store the result starts: two statements of up to 9 s each (see connect.ts). */
const NOTE_MS = 38_000
/** For emails in progress at shutdown. */
const STOP_MS = 5_000
const HAND_BACK_MS = 2_000
const OUTAGE_PAUSE_MS = 5_000

export function createSender(options: DeliveryOptions) {
  const [stopping, stopped] = [new AbortController(), new AbortController()]
  const delivery = { ...options, stopping: stopping.signal, stopped: stopped.signal }
  let running: Promise<void> | undefined
  let ended: Promise<void> | undefined

  async function stop(): Promise<void> {
    stopping.abort()
    await Promise.race([running, sleep(STOP_MS, undefined, { ref: false })])
    stopped.abort()
    await Promise.race([running, sleep(HAND_BACK_MS, undefined, { ref: false })])
    options.transport.close()
  }

  return {
    start() {
      running ??= run(delivery)
    },
    /** Resolves after at most 7 s, when the email in progress is sent or handed back. */
    stop() {
      ended ??= stop()
      return ended
    },
  }
}

async function run(delivery: Delivery): Promise<void> {
  const underWay = new Set<Promise<void>>()
  while (!delivery.stopping.aborted) {
    const room = MAX_CONNECTIONS - underWay.size
    // Start before the leases, so that they end first.
    const deadlines = { answered: AbortSignal.timeout(ATTEMPT_MS), noted: AbortSignal.timeout(NOTE_MS) }
    const mails = await takeDue(delivery, room)
    for (const mail of mails) {
      const sending = deliver(delivery, mail, deadlines).finally(() => underWay.delete(sending))
      underWay.add(sending)
    }
    // With all connections in use, more email can be due: wait for a connection, not for the next poll.
    if (underWay.size === MAX_CONNECTIONS) await Promise.race(underWay)
    else if (mails.length < room) await pause(delivery, POLL_MS)
  }
  await Promise.all(underWay)
}

async function pause({ stopping: signal }: Delivery, ms: number): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => {})
}

async function takeDue(delivery: Delivery, max: number): Promise<DueMail[]> {
  const { db, system, note } = delivery
  try {
    const now = new Date(system.now())
    return await takeDueMailsAcrossCompanies(db, { now, leaseMs: LEASE_MS, max })
  } catch (error) {
    note('fault', { err: error })
    await pause(delivery, OUTAGE_PAUSE_MS)
    return []
  }
}

interface Options extends Pick<DeliveryOptions, 'db' | 'system' | 'compose'> {
  config: Config
  registry: Registry
  log: Log
}

const LEVELS = { sent: 'info', waiting: 'info', postponed: 'warn', failed: 'error', fault: 'error' } as const

/** One sender per machine is enough. */
export function openMail({ config, registry, log, ...rest }: Options) {
  const attempts = new Counter({
    name: 'gatehouse_mail_attempts_total',
    help: 'Attempts to send an email, by outcome: sent, waiting, postponed, failed, fault',
    labelNames: ['end'],
    registers: [registry],
  })
  // If a counter only appears with its first count, rates miss that count.
  for (const end of Object.keys(LEVELS)) attempts.inc({ end }, 0)
  const transport = openTransport(config)
  log.info(`Mail goes to ${transport.destination}`)
  showBacklog(registry, rest)
  return createSender({
    ...rest,
    transport,
    limit: config.limits.mailToAddress,
    note(end, context) {
      attempts.inc({ end })
      log[LEVELS[end]](context, `mail: ${end}`)
    },
  })
}

function showBacklog(registry: Registry, { db, system }: Pick<Options, 'db' | 'system'>): void {
  const waiting = 'Emails that are not sent yet, except those that wait for their turn'
  showStored(registry, 'mail_waiting', waiting, async () => (await readBacklogAcrossCompanies(db)).waiting)
  showStored(registry, 'mail_oldest_seconds', 'How long the oldest of them has waited', async () => {
    const { oldest } = await readBacklogAcrossCompanies(db)
    return oldest ? Math.max(0, system.now() - oldest.getTime()) / 1000 : 0
  })
}
