import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, describe, expect, test } from 'vitest'
import { openProxy } from '../../scripts/kit/tcp-proxy.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { connect } from '../../src/database/connect.ts'
import { migrate } from '../../src/database/migrate.ts'
import { isSettled } from '../../src/database/start.ts'
import { settleRestored } from '../../src/operator/restored.ts'
import { type Cluster, hasDebianPostgres, openClusters } from '../support/debian-postgres.ts'
import { addReader } from '../support/platform.ts'
import { openTestService, type TestService } from '../support/test-service.ts'

/** The feed when its database is a different one: a standby that was promoted, a dump that was restored. */

/** Leads to one cluster at a time, as the proxy before the databases does. */
async function openWay() {
  let target: Pick<Cluster, 'host' | 'port'> | undefined
  const proxy = await openProxy(() => target ?? NOWHERE)
  return {
    url: `postgres://postgres@${proxy.host}:${proxy.port}/postgres`,
    lead(to: Cluster | undefined) {
      target = to
      proxy.cutAll()
    },
    close: proxy.close,
  }
}

/** Nothing listens there. */
const NOWHERE = { host: '127.0.0.1', port: 1 }

/** Sends events without end, and knows which were acknowledged. */
function startWriting(service: TestService, companyId: string, secret: string) {
  const acknowledged: string[] = []
  let isRunning = true
  const writers = [1, 2, 3, 4].map(async (writer) => {
    for (let turn = 0; isRunning; turn += 1) {
      const id = `w${writer}-${turn}`
      const { status } = await service.send(companyId, secret, { id, type: 'a.b', data: {} })
      if (status === 202) acknowledged.push(id)
      else await sleep(20)
    }
  })
  return {
    acknowledged,
    async stop() {
      isRunning = false
      await Promise.all(writers)
    },
  }
}

/** Reads without end, and goes on with its cursor whatever happens. */
function startReading(read: (after: string | null) => ReturnType<TestService['ask']>) {
  const seen: string[] = []
  let next: string | null = null
  let isRunning = true
  const reading = (async () => {
    while (isRunning) {
      const { status, body } = await read(next)
      if (status !== 200) await sleep(20)
      else {
        seen.push(...body.events.map(({ id }: { id: string }) => id))
        next = body.next
      }
    }
  })()
  return {
    seen,
    async stop() {
      isRunning = false
      await reading
    },
  }
}

const until = (check: () => boolean) => expect.poll(check, { timeout: 60_000 }).toBe(true)

describe.skipIf(!hasDebianPostgres)("on Debian's Postgres", async () => {
  const clusters = await openClusters()
  afterAll(clusters.close)
  const way = await openWay()
  afterAll(() => way.close())
  const first = await clusters.create()
  way.lead(first)
  const setup = connect({ url: way.url, poolSize: 2 })
  await migrate(setup.maintenance)
  await setup.close()
  const service = await openTestService({ url: way.url, timeoutScale: 1 })
  const { companyId, ...admin } = await service.addCompany()
  const secret = await service.newSecret({ companyId, ...admin })
  const client = await addReader(service)
  const read = (after: string | null) => {
    const query = new URLSearchParams({ limit: '500', ...(after !== null && { after }) })
    return service.ask(`/events?${query}`, { method: 'GET', headers: client })
  }
  let current = first

  test('after a standby was promoted that lacks the last transactions, a reader misses nothing that comes', async () => {
    const standby = await current.copy()
    const writing = startWriting(service, companyId, secret)
    const reading = startReading(read)
    await until(() => reading.seen.length > 200)
    // It has never connected, so it knows nothing of these.
    way.lead(undefined)
    await current.kill()
    const lost = writing.acknowledged.length
    current = await clusters.start(standby)
    await current.promote()
    way.lead(current)
    await until(() => writing.acknowledged.length > lost + 500)
    await writing.stop()
    const since = writing.acknowledged.slice(lost)
    await until(() => since.every((id) => reading.seen.includes(id)))
    await reading.stop()
    expect(reading.seen.filter((id, index) => reading.seen.indexOf(id) !== index)).toEqual([])
  })

  test('after a dump was restored into another cluster, feed and ingest are refused until it is settled; then nothing is missed', async () => {
    const reading = startReading(read)
    const dump = await current.dump()
    for (const id of ['after-the-dump-1', 'after-the-dump-2'])
      expect((await service.send(companyId, secret, { id, type: 'a.b', data: {} })).status).toBe(202)
    await until(() => reading.seen.includes('after-the-dump-2'))
    const other = await clusters.create()
    await other.restore(dump)
    way.lead(other)
    await current.kill()
    current = other
    await expect.poll(async () => (await read(null)).body.detail, { timeout: 60_000 }).toMatch(/restored/)
    const refused = await service.send(companyId, secret, { id: 'too-early', type: 'a.b', data: {} })
    expect(refused.status).toBe(503)

    const { config, context } = service
    const operator = connect({ url: way.url, poolSize: 2 })
    const sealer = createSealer(config.masterKeys, context.system.randomBytes)
    await settleRestored({ ...context, db: operator.db, sealer }, service.clock.now())
    await operator.close()
    const writing = startWriting(service, companyId, secret)
    await until(() => writing.acknowledged.length > 500)
    await writing.stop()
    await until(() => writing.acknowledged.every((id) => reading.seen.includes(id)))
    await reading.stop()
    expect(reading.seen.filter((id, index) => reading.seen.indexOf(id) !== index)).toEqual([])
    const { rows } = await sql<{ count: number }>`select count(*)::int from events`.execute(service.db)
    const whole: string[] = []
    for (let next: string | null = null; ; ) {
      const { body } = await read(next)
      whole.push(...body.events.map(({ id }: { id: string }) => id))
      next = body.next
      if (body.isCaughtUp) break
    }
    expect(new Set(whole).size).toBe(rows[0]?.count)
    expect(whole.length).toBe(rows[0]?.count)
  })
  test('a dump restored into the same database is not ready until the operator has settled it', async () => {
    const operator = connect({ url: way.url, poolSize: 2 })
    const dump = await current.dump()
    await sql`drop schema public cascade; create schema public`.execute(operator.db)
    await current.restore(dump)
    expect(await isSettled(operator.health)).toBe(false)
    expect((await read(null)).status).toBe(503)
    await migrate(operator.maintenance)
    expect(await isSettled(operator.health)).toBe(false)
    const sealer = createSealer(service.config.masterKeys, service.context.system.randomBytes)
    await settleRestored({ ...service.context, db: operator.db, sealer }, service.clock.now())
    // Tables that are rewritten in place stay settled.
    await sql`vacuum full event_feed`.execute(operator.db)
    expect(await isSettled(operator.health)).toBe(true)
    await operator.close()
  })
})
