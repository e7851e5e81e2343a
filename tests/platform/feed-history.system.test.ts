import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, describe, expect, test } from 'vitest'
import { openProxy } from '../../scripts/kit/tcp-proxy.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { connect } from '../../src/database/connect.ts'
import { migrate } from '../../src/database/migrate.ts'
import { settleRestored } from '../../src/operator/platform.ts'
import { type Cluster, openClusters } from '../support/debian-postgres.ts'
import { addReader } from '../support/platform.ts'
import { openTestService } from '../support/test-service.ts'

/** The feeds of events and audit entries after their database changes: a promoted standby, or a restored dump. */

/** Leads to one cluster at a time, like the proxy in front of the databases. */
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

/** Nothing listens here. */
const NOWHERE = { host: '127.0.0.1', port: 1 }

/** Runs until stopped. Pauses briefly after a failure. */
function startLoop(turn: (n: number) => Promise<boolean>) {
  let isRunning = true
  const running = (async () => {
    for (let n = 0; isRunning; n += 1) if (!(await turn(n))) await sleep(20)
  })()
  return async () => {
    isRunning = false
    await running
  }
}

const until = (check: () => boolean) => expect.poll(check, { timeout: 60_000 }).toBe(true)

describe("on Debian's Postgres", async () => {
  const clusters = await openClusters()
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
  const signIn = async () => (await service.loginAs({ companyId, ...admin })).accessToken
  const json = { name: 'SIEM', role: 'auditor' }
  const collector = (await service.call('/auth/members', { token: await signIn(), json })).body
  const read = (after: string | null) => {
    const query = new URLSearchParams({ limit: '500', ...(after !== null && { after }) })
    return service.ask(`/events?${query}`, { method: 'GET', headers: client })
  }
  const idsOf = (events: { id: string }[]) => events.map(({ id }) => id)
  const send = async (id: string) =>
    (await service.send(companyId, secret, { id, type: 'a.b', data: {} })).status === 202
  let current = first

  /** Sends events continuously, and records which were acknowledged. */
  function startWriting() {
    const acknowledged: string[] = []
    const loops = [1, 2, 3, 4].map((writer) =>
      startLoop(async (turn) => {
        const id = `w${writer}-${turn}-${randomUUID()}`
        const isAcknowledged = await send(id)
        if (isAcknowledged) acknowledged.push(id)
        return isAcknowledged
      }),
    )
    return { acknowledged, stop: () => Promise.all(loops.map((stop) => stop())) }
  }

  /** Reads continuously with its own cursor, even after errors. */
  function startReading() {
    const seen: string[] = []
    let next: string | null = null
    const stop = startLoop(async () => {
      const { status, body } = await read(next)
      if (status !== 200) return false
      seen.push(...idsOf(body.events))
      next = body.next
      return true
    })
    /** Expects each of these events exactly once. */
    async function expectAll(ids: string[]) {
      await until(() => ids.every((id) => seen.includes(id)))
      await stop()
      expect(seen.filter((id, index) => seen.indexOf(id) !== index)).toEqual([])
    }
    return { seen, expectAll }
  }

  /** Changes a name continuously, so that there are audit entries. */
  const startRenaming = (token: string) =>
    startLoop(async (n) => {
      const json = { name: `Ada ${n}` }
      return (await service.call('/auth/account', { method: 'PATCH', token, json })).status === 200
    })

  /** Reads the audit feed continuously with its own cursor, even after errors. */
  function startCollecting() {
    const seen: string[] = []
    let next: string | null = null
    const stop = startLoop(async () => {
      const query = new URLSearchParams({ limit: '500', ...(next !== null && { after: next }) })
      const path = `/auth/audit/feed?${query}`
      const { status, body } = await service.call(path, { method: 'GET', token: collector.password })
      if (status !== 200) return false
      seen.push(...idsOf(body.entries))
      next = body.next
      return body.entries.length > 0
    })
    /** Expects each entry in the database exactly once. */
    async function expectStored() {
      const entries = service.db.selectFrom('audit_events').select('audit_id as id')
      const stored = idsOf(await entries.where('company_id', '=', companyId).execute())
      await until(() => stored.every((id) => seen.includes(id)))
      await stop()
      expect(seen.filter((id, index) => seen.indexOf(id) !== index)).toEqual([])
    }
    return { seen, expectStored }
  }

  async function settle() {
    const { config, context } = service
    const operator = connect({ url: way.url, poolSize: 2 })
    const sealer = createSealer(config.masterKeys, context.system.randomBytes)
    await settleRestored({ ...context, db: operator.db, sealer })
    await operator.close()
  }

  test('readers miss nothing after the promotion of a standby that lacks transactions', async () => {
    const standby = await current.copy()
    const [writing, stopRenaming] = [startWriting(), startRenaming(await signIn())]
    const [reading, collecting] = [startReading(), startCollecting()]
    await until(() => reading.seen.length > 200 && collecting.seen.length > 20)
    // The standby never connected to the primary, so it lacks these events.
    way.lead(undefined)
    await current.kill()
    const lost = writing.acknowledged.length
    current = await clusters.start(standby)
    await current.promote()
    way.lead(current)
    await until(() => writing.acknowledged.length > lost + 500)
    await Promise.all([writing.stop(), stopRenaming()])
    await reading.expectAll(writing.acknowledged.slice(lost))
    await collecting.expectStored()
  })

  test('a dump in a different cluster is refused until settled, losing nothing', async () => {
    const [reading, collecting] = [startReading(), startCollecting()]
    const dump = await current.dump()
    const stopRenaming = startRenaming(await signIn())
    for (const id of ['after-the-dump-1', 'after-the-dump-2']) expect(await send(id)).toBe(true)
    const { length } = collecting.seen
    await until(() => reading.seen.includes('after-the-dump-2') && collecting.seen.length > length + 20)
    await stopRenaming()
    const other = await clusters.create()
    await other.restore(dump)
    way.lead(other)
    await current.kill()
    current = other
    await expect.poll(async () => (await read(null)).body.detail, { timeout: 60_000 }).toMatch(/restored/)
    expect(await send('too-early')).toBe(false)

    await settle()
    const [writing, stopAgain] = [startWriting(), startRenaming(await signIn())]
    await until(() => writing.acknowledged.length > 500)
    await Promise.all([writing.stop(), stopAgain()])
    await reading.expectAll(writing.acknowledged)
    await collecting.expectStored()
    const { rows } = await sql<{ id: string }>`select event_id as id from events`.execute(service.db)
    const whole: string[] = []
    for (let next: string | null = null, isCaughtUp = false; !isCaughtUp; ) {
      const { body } = await read(next)
      whole.push(...idsOf(body.events))
      ;({ next, isCaughtUp } = body)
    }
    expect(whole.sort()).toEqual(idsOf(rows).sort())
  })
})
