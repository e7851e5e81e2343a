import { once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { MessageChannel } from 'node:worker_threads'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { type BatchOptions, createBatch } from '../../src/database/batch.ts'
import { Problem } from '../../src/errors.ts'
import { openTestService, times } from '../support/test-service.ts'

/** A batch whose statements end only when the test ends them. */
function openBatch(options: Partial<BatchOptions<string, string>> = {}) {
  const inFlight: { items: string[]; succeed(): void; fail(error: Error): void }[] = []
  const statements: string[][] = []
  const batch = createBatch<string, string>({
    run(items) {
      const { promise, resolve, reject } = Promise.withResolvers<string[]>()
      const statement = {
        items,
        succeed: () => end(() => resolve(items.map((item) => `${item} done`))),
        fail: (error: Error) => end(() => reject(error)),
      }
      const end = (how: () => void) => {
        inFlight.splice(inFlight.indexOf(statement), 1)
        how()
      }
      inFlight.push(statement)
      statements.push(items)
      return promise
    },
    isItemFault: (error) => error instanceof ItemFault,
    isOutage: (error) => error instanceof Outage,
    maxSize: 100,
    maxInFlight: 1,
    maxWaiting: 1_000,
    ...options,
  })
  const send = (item: string) =>
    batch(item).then(
      (outcome) => outcome,
      (error: Error) => `${item} failed: ${error instanceof Problem ? error.code : error.message}`,
    )
  /** Ends the oldest statement. */
  async function end(error?: Error) {
    if (error) inFlight[0]?.fail(error)
    else inFlight[0]?.succeed()
    await turn()
  }
  /** Sends items behind a first one, so that they share a statement. */
  async function gather(...items: string[]) {
    const [, ...answers] = ['first', ...items].map(send)
    await end()
    return answers
  }
  async function finish() {
    while (inFlight.length > 0) await end()
  }
  return { send, statements, inFlight, end, gather, finish }
}

const done = (...items: string[]) => items.map((item) => `${item} done`)

class ItemFault extends Error {}
class Outage extends Error {}

test('items that arrive during a statement share the next one, in order', async () => {
  const { send, statements, finish } = openBatch()
  const answers = ['a', 'b', 'c', 'd'].map(send)
  expect(statements).toEqual([['a']])
  await finish()
  expect(statements).toEqual([['a'], ['b', 'c', 'd']])
  expect(await Promise.all(answers)).toEqual(done('a', 'b', 'c', 'd'))
  void send('e')
  expect(statements.at(-1)).toEqual(['e'])
})

test('items of one turn go together when scheduled for its end', async () => {
  const { send, statements, finish } = openBatch({ schedule: setImmediate })
  const answers = ['a', 'b', 'c'].map(send)
  expect(statements).toEqual([])
  await turn()
  expect(statements).toEqual([['a', 'b', 'c']])
  answers.push(send('d'))
  await finish()
  expect(statements).toEqual([['a', 'b', 'c'], ['d']])
  expect(await Promise.all(answers)).toEqual(done('a', 'b', 'c', 'd'))
})

test('a statement has at most maxSize items, and maxInFlight are in flight', async () => {
  const { send, statements, inFlight, finish } = openBatch({ maxSize: 3, maxInFlight: 2 })
  void times(10, (index) => send(`${index}`))
  expect(statements).toEqual([['0'], ['1', '2', '3']])
  inFlight[1]?.succeed()
  await turn()
  expect(inFlight.map(({ items }) => items)).toEqual([['0'], ['4', '5', '6']])
  await finish()
  expect(statements.slice(3)).toEqual([['7', '8', '9']])
})

test('waiting items go in a second statement if the first is late', async () => {
  const { send, statements, finish } = openBatch({ maxInFlight: 2, patienceMs: 1 })
  const answers = [send('a'), send('b')]
  await turn()
  answers.push(send('c'))
  await expect.poll(() => statements).toEqual([['a'], ['b', 'c']])
  answers.push(send('d'))
  await finish()
  expect(statements).toEqual([['a'], ['b', 'c'], ['d']])
  expect(await Promise.all(answers)).toEqual(done('a', 'b', 'c', 'd'))
})

test('a statement is late only after arrived replies are read', async () => {
  const { port1: server, port2: client } = new MessageChannel()
  let inFlight = 0
  let most = 0
  const batch = createBatch<string, string>({
    async run(items) {
      inFlight += 1
      most = Math.max(most, inFlight)
      const reply = once(client, 'message')
      server.postMessage('')
      await reply
      inFlight -= 1
      return items
    },
    patienceMs: 1,
  })
  await turn()
  const answers = ['a', 'b', 'c'].map(batch)
  // A long turn: at its end, the timer is due and the reply has arrived.
  const endsAt = performance.now() + 5
  while (performance.now() < endsAt);
  expect(await Promise.all(answers)).toEqual(['a', 'b', 'c'])
  expect(most).toBe(1)
  client.close()
})

test('items that keep arriving do not delay a second statement', async () => {
  const roomy = { maxSize: 1e9, maxWaiting: 1e9 }
  const { send, statements, finish } = openBatch({ maxInFlight: 2, patienceMs: 5, ...roomy })
  void send('first')
  let sent = 0
  while (statements.length < 2) {
    void send(`${sent++}`)
    await turn()
  }
  expect(statements[1]?.length).toBe(sent)
  await finish()
})

test('new items do not wait for items that are retried individually', async () => {
  const { gather, send, statements, inFlight, end, finish } = openBatch()
  const [blocked, fine] = await gather('blocked', 'fine')
  await end(new ItemFault('locked'))
  const later = send('later')
  expect(statements.slice(2)).toEqual([['blocked'], ['fine'], ['later']])
  for (const { items, succeed } of [...inFlight]) if (items[0] !== 'blocked') succeed()
  expect([await fine, await later]).toEqual(done('fine', 'later'))
  await finish()
  expect(await blocked).toBe('blocked done')
})

test('while individual retries hang, others continue, and the rest fail in time', async () => {
  const { gather, send, inFlight, end, finish } = openBatch({ maxAlone: 2, maxRetryMs: 200 })
  const [fine, ...others] = await gather('fine', 'hangs 1', 'hangs 2', 'behind')
  await end(new ItemFault('too slow'))
  await end()
  expect(inFlight.map(({ items }) => items)).toEqual([['hangs 1'], ['hangs 2']])
  // Queued items are not affected, because others succeed.
  const later = send('later')
  expect(await fine).toBe('fine done')
  expect(await others[2]).toBe('behind failed: too slow')
  await finish()
  expect(await Promise.all([...others.slice(0, 2), later])).toEqual(done('hangs 1', 'hangs 2', 'later'))
})

test('overload fails all waiting items if no individual retry succeeds', async () => {
  const { send, inFlight, end, finish } = openBatch({ maxAlone: 2, maxRetryMs: 200, maxSize: 4 })
  const answers = ['first', 'a', 'b', 'c', 'd', 'in flight', 'e', 'f', 'g', 'waits'].map(send)
  await end()
  await end(new ItemFault('too slow'))
  expect(inFlight.map(({ items }) => items)).toEqual([['a'], ['b'], ['in flight', 'e', 'f', 'g']])
  const failed = await Promise.all([answers[3], answers[4], answers[9]])
  expect(failed).toEqual(['c', 'd', 'waits'].map((item) => `${item} failed: too slow`))
  const later = send('later')
  await finish()
  expect(await later).toBe('later done')
})

test('an outage fails all items, queued or awaiting an individual retry', async () => {
  const keyOf = (item: string) => item.slice(0, 1)
  const { gather, send, inFlight, end, finish } = openBatch({ maxAlone: 1, keyOf })
  const answers = await gather('a1', 'b1', 'c1', 'c2')
  await end(new ItemFault('bad data'))
  // Two of these are queued: one behind d1, one for a slot.
  answers.push(...['d1', 'd2', 'e1'].map(send))
  expect(inFlight.map(({ items }) => items)).toEqual([['a1'], ['d1']])
  await end(new Outage('away'))
  await end()
  const outcomes = ['a1', 'b1', 'c1', 'c2', 'd1', 'd2', 'e1'].map((item) => `${item} failed: away`)
  expect(await Promise.all(answers)).toEqual(outcomes.with(4, 'd1 done'))
  // Their keys are free again.
  const later = ['a2', 'c3', 'd3', 'e2'].map(send)
  await finish()
  expect(await Promise.all(later)).toEqual(done('a2', 'c3', 'd3', 'e2'))
})

test('items without an outcome fail', async () => {
  const batch = createBatch<string, string>({ run: async ([first = '']) => [first], maxInFlight: 1 })
  const answers = await Promise.allSettled(['a', 'b', 'c'].map(batch))
  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected'])
})

/** A small generator of reproducible random numbers (mulberry32). */
function createRandom(seed: number) {
  let state = seed
  return (below: number) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

test.each(times(40, (seed) => [seed]))('a batch keeps all its guarantees (seed %i)', async (seed) => {
  const random = createRandom(seed)
  const [maxSize, maxInFlight, maxWaiting] = [1 + random(6), 1 + random(3), 2 + random(8)]
  const keyOf = (item: string) => item.slice(0, 1)
  const isBad = (item: string) => item.endsWith('!')
  const { send, statements, inFlight } = openBatch({ keyOf, maxSize, maxInFlight, maxWaiting })

  const answers = new Map<string, string>()
  const sent: string[] = []
  /** The expected outcome of an item. Its last statement decides, unless the item is to be refused. */
  const expected = new Map<string, string>()
  const refused = new Set<string>()
  const running = () => inFlight.flatMap(({ items }) => items)
  const waiting = () => {
    const begun = new Set(statements.flat())
    return sent.filter((item) => !begun.has(item) && !expected.has(item) && !refused.has(item))
  }

  /** Items retried individually, from the failure of their statement until their retry ends. */
  const aside = new Set<string>()
  const failed: string[] = []
  const endTurn = async () => {
    await turn()
    for (const item of failed.splice(0)) aside.add(item)
  }
  const waitingAlone = () => [...aside].filter((item) => !running().includes(item))

  function sendOne() {
    const item = `${'abcdefgh'[random(8)]}${sent.length}${random(8) === 0 ? '!' : ''}`
    const isFull = waiting().length + waitingAlone().length >= maxWaiting
    sent.push(item)
    if (isFull) refused.add(item)
    void send(item).then((answer) => answers.set(item, answer))
  }
  function endOne() {
    const statement = inFlight[random(Math.max(1, inFlight.length))]
    if (!statement) return
    const { items } = statement
    for (const item of items) aside.delete(item)
    const record = (outcome: (item: string) => string) => {
      for (const item of items) expected.set(item, outcome(item))
    }
    if (random(10) === 0) {
      record((item) => `${item} failed: connection lost`)
      statement.fail(new Error('connection lost'))
    } else if (items.some(isBad)) {
      if (items.length === 1) record((item) => `${item} failed: bad data`)
      // The batch learns of it only at the end of the turn.
      else failed.push(...items)
      statement.fail(new ItemFault('bad data'))
    } else {
      record((item) => `${item} done`)
      statement.succeed()
    }
  }
  function checkStatements() {
    // All other statements retry one item after a fault of a neighbor.
    const shared = inFlight.filter(({ items }) => items.length > 1)
    expect(shared.length).toBeLessThanOrEqual(maxInFlight)
    expect(inFlight.length).toBeLessThanOrEqual(maxInFlight + 4)
    for (const { items } of inFlight) expect(items.length).toBeLessThanOrEqual(maxSize)
    const keys = running().map(keyOf)
    expect(new Set(keys).size).toBe(keys.length)
  }

  for (let step = 0; step < 400; step += 1) {
    if (random(5) < 3) sendOne()
    else endOne()
    checkStatements()
    if (random(2) === 0) {
      await endTurn()
      if (inFlight.length === 0) expect(waiting()).toEqual([])
    }
  }
  await endTurn()
  while (inFlight.length > 0) {
    endOne()
    await endTurn()
    checkStatements()
  }

  expect(waiting()).toEqual([])
  for (const item of refused) expected.set(item, `${item} failed: overloaded`)
  expect(Object.fromEntries(answers)).toEqual(Object.fromEntries(expected))
  const firstRuns = [...new Set(statements.flat())]
  for (const key of 'abcdefgh') {
    const ofKey = (items: string[]) => items.filter((item) => keyOf(item) === key)
    const accepted = sent.filter((item) => !answers.get(item)?.endsWith('overloaded'))
    expect(ofKey(firstRuns)).toEqual(ofKey(accepted))
  }
})

describe('in one database batch', async () => {
  const service = await openTestService()
  const admin = await service.addCompany()
  const secret = await service.newSecret(admin)
  await service.send(admin.companyId, secret, { type: 'warm.up', data: {} })

  /** Sends events that share a few statements, behind one that hangs while the table is locked. */
  async function sendTogether(events: { id: string; type: string; data: object }[]) {
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    const { promise: locked, resolve: noteLocked } = Promise.withResolvers<void>()
    const blocker = service.db.transaction().execute(async (tx) => {
      await sql`lock table events in exclusive mode`.execute(tx)
      noteLocked()
      await held
    })
    await locked
    const answers = events.map((event) => service.send(admin.companyId, secret, event))
    // Once this one is refused, the events before it have arrived.
    expect((await service.send(admin.companyId, secret, { type: 'X', data: {} })).status).toBe(400)
    release()
    await blocker
    return await Promise.all(answers)
  }

  test.for([
    ['22012', 500],
    ['40001', 503],
  ] as const)('an event refused with %s fails without its neighbors', async ([code, status]) => {
    await sql`create or replace function refuse() returns trigger language plpgsql as $$ begin
      if new.type = 'poison' then raise exception 'refused' using errcode = ${sql.lit(code)}; end if;
      return new; end $$`.execute(service.db)
    await sql`create or replace trigger refused before insert on events
      for each row execute function refuse()`.execute(service.db)
    const types = times(40, (index) => (index % 20 === 7 ? 'poison' : 'wholesome'))
    const events = types.map((type, index) => ({ id: `${code}-${index}`, type, data: {} }))
    const answers = await sendTogether(events)
    const expected = types.map((type) => (type === 'poison' ? status : 202))
    expect(answers.map((answer) => answer.status)).toEqual(expected)
    const stored = service.db.selectFrom('events').select('event_id').where('event_id', 'like', `${code}-%`)
    expect(await stored.execute()).toHaveLength(38)
  })

  test('each of many session checks gets its own result (ASVS 8.4.1)', async () => {
    const [other, third] = [await service.addUser(admin), await service.addCompany()]
    const credentials = await Promise.all(
      times(16, async (index) => {
        const person = [admin, other, third][index % 3] ?? admin
        const { accessToken: token } = await service.loginAs(person)
        const isEnded = index % 5 === 0
        if (isEnded) await service.call('/auth/logout', { token })
        return { token, expected: isEnded ? 'session_ended' : person.userId }
      }),
    )
    const calls = times(8, () => credentials).flat()
    const answers = await Promise.all(calls.map(({ token }) => service.getSession({ token })))
    expect(answers.map(({ body }) => body.code ?? body.user.id)).toEqual(calls.map((one) => one.expected))
  })
})
