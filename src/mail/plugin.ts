import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Kysely } from 'kysely'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { Config } from '../config.ts'
import type { Database } from '../database/schema.ts'
import type { System } from '../system.ts'
import { type Backlog, readBacklogAcrossCompanies } from './repository.ts'
import { createSender, type DueMail, type Letter } from './service.ts'
import { openTransport } from './transport.ts'

interface Options {
  config: Config
  db: Kysely<Database>
  system: System
  registry: Registry
  compose(mail: DueMail, now: number): Promise<Letter | null>
}

const LEVELS = { sent: 'info', postponed: 'warn', 'given up': 'error', fault: 'error' } as const

/** Sends mail from when the service listens until it closes, and shows what waits. */
async function plugin(app: FastifyInstance, { config, registry, ...rest }: Options): Promise<void> {
  const { db, system } = rest
  const ended = new Counter({
    name: 'mail_attempts_total',
    help: 'Attempts to send a mail, by how they ended: sent, postponed, given up, fault',
    labelNames: ['end'],
    registers: [registry],
  })
  const transport = openTransport(config)
  const sender = createSender({
    ...rest,
    transport,
    note(end, facts) {
      ended.inc({ end })
      app.log[LEVELS[end]](facts, `mail: ${end}`)
    },
  })
  app.addHook('onListen', async () => {
    app.log.info(`Mail goes to ${transport.destination}`)
    sender.start()
  })
  // From when the service drains, and no longer than that takes.
  app.addHook('preClose', async () => void sender.stop())
  app.addHook('onClose', async () => await sender.stop())

  const gauge = (name: string, help: string, read: (backlog: Backlog) => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        const backlog = await readBacklogAcrossCompanies(db).catch(() => null)
        this.set(backlog ? read(backlog) : Number.NaN)
      },
    })
  gauge('mail_waiting', 'Mails that are not sent yet', ({ waiting }) => waiting)
  gauge('mail_oldest_seconds', 'How long the oldest of them has waited', ({ oldest }) =>
    oldest ? Math.max(0, system.now() - oldest.getTime()) / 1000 : 0,
  )
}

export const mailPlugin = fp(plugin, { name: 'mail' })
