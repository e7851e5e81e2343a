import { setTimeout as sleep } from 'node:timers/promises'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { Config } from '../config.ts'
import type { Log } from '../http/logs.ts'
import type { DeliveryOptions } from './delivery.ts'
import { type Backlog, readBacklogAcrossCompanies } from './repository.ts'
import { createSender, type Sender } from './sender.ts'
import { openTransport } from './transport.ts'

interface Options extends Pick<DeliveryOptions, 'db' | 'system' | 'compose'> {
  config: Config
  registry: Registry
  log: Log
}

const READING_MS = 1_000
const LEVELS = { sent: 'info', waiting: 'info', postponed: 'warn', failed: 'error', fault: 'error' } as const

/** Sends mail once started, and exports metrics of the waiting mail. One sender is enough for a machine. */
export function openMail({ config, registry, log, ...rest }: Options): Sender {
  const attempts = new Counter({
    name: 'gatehouse_mail_attempts_total',
    help: 'Attempts to send a mail, by how they ended: sent, waiting, postponed, failed, fault',
    labelNames: ['end'],
    registers: [registry],
  })
  // A counter that appears only with its first count hides that count.
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
  const gauge = (name: string, help: string, read: (backlog: Backlog) => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        const reading = readBacklogAcrossCompanies(db).catch(() => null)
        // Operators need the other metrics most when the database does not answer.
        const backlog = await Promise.race([reading, sleep(READING_MS, null, { ref: false })])
        this.set(backlog ? read(backlog) : Number.NaN)
      },
    })
  gauge(
    'gatehouse_mail_waiting',
    'Mails that are not sent yet, but for those that wait for their turn',
    ({ waiting }) => waiting,
  )
  gauge('gatehouse_mail_oldest_seconds', 'How long the oldest of them has waited', ({ oldest }) =>
    oldest ? Math.max(0, system.now() - oldest.getTime()) / 1000 : 0,
  )
}
