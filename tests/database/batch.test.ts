import { once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { MessageChannel } from 'node:worker_threads'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { type BatchOptions, createBatch } from '../../src/database/batch.ts'
import { Problem } from '../../src/errors.ts'
import { openTestService, times } from '../support/test-service.ts'

/** A batch whose statements end when the test says so. */
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
  /** What became of an item, as text. */
  const send = (item: string) =>
    batch(item).then(
      (outcome) => outcome,
      (error: Error) => `${item} failed: ${error instanceof Problem ? error.code : error.message}`,
    )
  /** Ends every statement well, and those that follow, until nothing is left. */
  async function finish() {
    while (inFlight.length > 0) {
      for (const statement of [...inFlight]) statement.succeed()
      await turn()
    }
  }
  return { send, statements, inFlight, finish }
}

class ItemFault extends Error {}
class Outage extends Error {}

describe('a batch', () => {
  test('sends what arrives while idle at once, alone', async () => {
    const { send, statements, finish } = openBatch()
    const answer = send('a')
    expect(statements).toEqual([['a']])
    await finish()
    expect(await answer).toBe('a done')
    void send('b')
    expect(statements).toEqual([['a'], ['b']])
  })

  test('sends together, in order, what arrives while a statement is in flight', async () => {
    const { send, statements, finish } = openBatch()
    const answers = ['a', 'b', 'c', 'd'].map(send)
    await finish()
    expect(statements).toEqual([['a'], ['b', 'c', 'd']])
    expect(await Promise.all(answers)).toEqual(['a done', 'b done', 'c done', 'd done'])
  })

  test('scheduled for the end of the turn, sends together what arrives in one, and waits no longer', async () => {
    const { send, statements, finish } = openBatch({ schedule: setImmediate })
    const answers = ['a', 'b', 'c'].map(send)
    expect(statements).toEqual([])
    await turn()
    expect(statements).toEqual([['a', 'b', 'c']])
    answers.push(send('d'))
    await finish()
    expect(statements).toEqual([['a', 'b', 'c'], ['d']])
    expect(await Promise.all(answers)).toEqual(['a done', 'b done', 'c done', 'd done'])
  })

  test('has at most maxSize items in a statement and maxInFlight statements in flight', async () => {
    const { send, statements, inFlight, finish } = openBatch({ maxSize: 3, maxInFlight: 2 })
    void times(10, (index) => send(`${index}`))
    expect(statements).toEqual([['0'], ['1', '2', '3']])
    inFlight[1]?.succeed()
    await turn()
    expect(inFlight.map(({ items }) => items)).toEqual([['0'], ['4', '5', '6']])
    await finish()
    expect(statements.slice(3)).toEqual([['7', '8', '9']])
  })

  test('sends another statement beside one that takes long, with all that arrived meanwhile', async () => {
    const { send, statements, finish } = openBatch({ maxInFlight: 2, patienceMs: 1 })
    const answers = [send('a')]
    answers.push(send('b'))
    await turn()
    answers.push(send('c'))
    await expect.poll(() => statements).toEqual([['a'], ['b', 'c']])
    answers.push(send('d'))
    await finish()
    expect(statements).toEqual([['a'], ['b', 'c'], ['d']])
    expect(await Promise.all(answers)).toEqual(['a done', 'b done', 'c done', 'd done'])
  })

  test('takes a statement for late only when the replies that have arrived are read', async () => {
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
    // A long turn: when it ends, the timer is due and the reply is there.
    const endsAt = performance.now() + 5
    while (performance.now() < endsAt);
    expect(await Promise.all(answers)).toEqual(['a', 'b', 'c'])
    expect(most).toBe(1)
    client.close()
  })

  test('does not wait longer when more arrive meanwhile', async () => {
    const { send, statements, finish } = openBatch({
      maxInFlight: 2,
      patienceMs: 5,
      maxSize: 1e9,
      maxWaiting: 1e9,
    })
    void send('first')
    let sent = 0
    while (statements.length < 2) {
      void send(`${sent++}`)
      await turn()
    }
    expect(statements[1]?.length).toBe(sent)
    await finish()
  })

  test('lets equal keys see each other: one after the other, in order, others beside them', async () => {
    const keyOf = (item: string) => item.slice(0, 1)
    const { send, statements, inFlight, finish } = openBatch({ keyOf, maxInFlight: 2, patienceMs: 1 })
    void ['a1', 'a2', 'b1', 'a3', 'c1', 'b2'].map(send)
    // The second slot is free, yet a2 waits for a1, and b2 for b1.
    await expect.poll(() => statements).toEqual([['a1'], ['b1', 'c1']])
    inFlight[1]?.succeed()
    await expect.poll(() => inFlight.map(({ items }) => items)).toEqual([['a1'], ['b2']])
    void send('a4')
    await finish()
    expect(statements.flat().filter((item) => item.startsWith('a'))).toEqual(['a1', 'a2', 'a3', 'a4'])
    for (const items of statements) expect(new Set(items.map(keyOf)).size).toBe(items.length)
  })

  test('fails the one item that is at fault and none of its neighbours', async () => {
    const { send, statements, inFlight } = openBatch()
    const answers = ['first', 'good', 'bad', 'fine'].map(send)
    inFlight[0]?.succeed()
    await turn()
    while (inFlight.length > 0) {
      const [statement] = inFlight
      if (statement?.items.includes('bad')) statement.fail(new ItemFault('bad data'))
      else statement?.succeed()
      await turn()
    }
    expect(statements).toEqual([['first'], ['good', 'bad', 'fine'], ['good'], ['bad'], ['fine']])
    expect(await Promise.all(answers)).toEqual([
      'first done',
      'good done',
      'bad failed: bad data',
      'fine done',
    ])
  })

  test('fails all of a statement whose connection was lost, tries none again, and goes on', async () => {
    const { send, statements, inFlight, finish } = openBatch({ keyOf: (item) => item.slice(0, 1) })
    const answers = ['a', 'b1', 'c', 'b2'].map(send)
    inFlight[0]?.succeed()
    await turn()
    inFlight[0]?.fail(new Error('connection lost'))
    await turn()
    await finish()
    expect(statements).toEqual([['a'], ['b1', 'c'], ['b2']])
    expect(await Promise.all(answers)).toEqual([
      'a done',
      'b1 failed: connection lost',
      'c failed: connection lost',
      'b2 done',
    ])
  })

  test('does not hold up others while it tries alone those whose statement failed', async () => {
    const { send, statements, inFlight, finish } = openBatch()
    const answers = ['first', 'blocked', 'fine'].map(send)
    inFlight[0]?.succeed()
    await turn()
    inFlight[0]?.fail(new ItemFault('locked'))
    await turn()
    const later = send('later')
    expect(statements.slice(2)).toEqual([['blocked'], ['fine'], ['later']])
    for (const { items, succeed } of [...inFlight]) if (items[0] !== 'blocked') succeed()
    expect([await answers[2], await later]).toEqual(['fine done', 'later done'])
    await finish()
    expect(await answers[1]).toBe('blocked done')
  })

  test('tries alone a few at a time, and refuses new items beyond maxWaiting meanwhile', async () => {
    const { send, statements, inFlight, finish } = openBatch({ maxAlone: 2, maxWaiting: 5 })
    const answers = ['first', 'a', 'b', 'bad', 'c', 'd'].map(send)
    inFlight[0]?.succeed()
    await turn()
    inFlight[0]?.fail(new ItemFault('bad data'))
    await turn()
    expect(inFlight.map(({ items }) => items)).toEqual([['a'], ['b']])
    // One is sent past them. Three wait to be tried alone, so two more can wait.
    const later = ['e', 'f', 'g', 'one too many'].map(send)
    expect(await later[3]).toBe('one too many failed: overloaded')
    inFlight[0]?.succeed()
    await turn()
    expect(statements.at(-1)).toEqual(['bad'])
    inFlight.find(({ items }) => items[0] === 'bad')?.fail(new ItemFault('bad data'))
    await turn()
    await finish()
    expect(await Promise.all([...answers, ...later])).toEqual([
      ...['first', 'a', 'b'].map((item) => `${item} done`),
      'bad failed: bad data',
      ...['c', 'd', 'e', 'f', 'g'].map((item) => `${item} done`),
      'one too many failed: overloaded',
    ])
  })

  test('goes on with the others while some that are tried alone hang, and gives up on the rest in time', async () => {
    const { send, inFlight, finish } = openBatch({ maxAlone: 2, maxRetryMs: 200 })
    const answers = ['first', 'fine', 'hangs 1', 'hangs 2', 'behind'].map(send)
    inFlight[0]?.succeed()
    await turn()
    inFlight[0]?.fail(new ItemFault('too slow'))
    await turn()
    inFlight[0]?.succeed()
    await turn()
    expect(inFlight.map(({ items }) => items)).toEqual([['hangs 1'], ['hangs 2']])
    // One that waits in the queue is not concerned, since others do succeed.
    const later = send('later')
    expect(await answers[1]).toBe('fine done')
    expect(await answers[4]).toBe('behind failed: too slow')
    await finish()
    expect(await Promise.all([answers[2], answers[3], later])).toEqual([
      'hangs 1 done',
      'hangs 2 done',
      'later done',
    ])
  })

  test('tells all who wait when nothing succeeds alone either, since the load is the cause and no item', async () => {
    const { send, inFlight, finish } = openBatch({ maxAlone: 2, maxRetryMs: 200, maxSize: 4 })
    const answers = ['first', 'a', 'b', 'c', 'd', 'in flight', 'e', 'f', 'g', 'waits'].map(send)
    inFlight[0]?.succeed()
    await turn()
    inFlight[0]?.fail(new ItemFault('too slow'))
    await turn()
    expect(inFlight.map(({ items }) => items)).toEqual([['a'], ['b'], ['in flight', 'e', 'f', 'g']])
    const failed = await Promise.all([answers[3], answers[4], answers[9]])
    expect(failed).toEqual(['c', 'd', 'waits'].map((item) => `${item} failed: too slow`))
    const later = send('later')
    await finish()
    expect(await later).toBe('later done')
  })

  test('fails those that it would try alone, too, when there is an outage', async () => {
    const { send, inFlight } = openBatch({ maxAlone: 1, keyOf: (item) => item.slice(0, 1) })
    const answers = ['first', 'a1', 'b1', 'c1', 'c2'].map(send)
    inFlight[0]?.succeed()
    await turn()
    inFlight[0]?.fail(new ItemFault('bad data'))
    await turn()
    inFlight[0]?.fail(new Outage('away'))
    expect(await Promise.all(answers.slice(1))).toEqual(
      ['a1', 'b1', 'c1', 'c2'].map((item) => `${item} failed: away`),
    )
    // Their keys are free again.
    const later = ['a2', 'c3'].map(send)
    while (inFlight.length > 0) {
      for (const statement of [...inFlight]) statement.succeed()
      await turn()
    }
    expect(await Promise.all(later)).toEqual(['a2 done', 'c3 done'])
  })

  test('tells those who wait at once when there is an outage, and goes on afterwards', async () => {
    const { send, inFlight, finish } = openBatch({ keyOf: (item) => item.slice(0, 1) })
    const answers = ['a1', 'a2', 'b1', 'b2'].map(send)
    inFlight[0]?.fail(new Outage('away'))
    expect(await Promise.all(answers)).toEqual(['a1', 'a2', 'b1', 'b2'].map((item) => `${item} failed: away`))
    const later = ['a3', 'b3', 'a4'].map(send)
    await finish()
    expect(await Promise.all(later)).toEqual(['a3 done', 'b3 done', 'a4 done'])
  })

  test.each([
    ['different keys', (item: string) => item],
    ['one key', () => 'same'],
  ])('refuses what exceeds maxWaiting, of %s, and takes more once there is room', async (_name, keyOf) => {
    const { send, finish } = openBatch({ keyOf, maxWaiting: 2 })
    const answers = ['in flight', 'waits', 'waits too', 'one too many'].map(send)
    expect(await answers[3]).toBe('one too many failed: overloaded')
    await finish()
    expect(await Promise.all(answers.slice(0, 3))).toEqual(['in flight done', 'waits done', 'waits too done'])
    const later = send('later')
    await finish()
    expect(await later).toBe('later done')
  })

  test('fails items that a statement gave no outcome for', async () => {
    const batch = createBatch<string, string>({
      run: async ([first = '']) => [first],
      maxInFlight: 1,
    })
    const answers = await Promise.allSettled(['a', 'b', 'c'].map(batch))
    expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected'])
  })
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

describe('under random load, a batch', () => {
  test.each(times(40, (seed) => [seed]))('keeps every promise (seed %i)', async (seed) => {
    const random = createRandom(seed)
    const [maxSize, maxInFlight, maxWaiting] = [1 + random(6), 1 + random(3), 5 + random(20)]
    const keyOf = (item: string) => item.slice(0, 1)
    const isBad = (item: string) => item.endsWith('!')
    const { send, statements, inFlight } = openBatch({ keyOf, maxSize, maxInFlight, maxWaiting })

    const answers = new Map<string, string>()
    const sent: string[] = []
    /** What an item must come to: the last statement that it was part of decides. */
    const expected = new Map<string, string>()
    const running = () => inFlight.flatMap(({ items }) => items)
    const waiting = () => {
      const begun = new Set(statements.flat())
      return sent.filter((item) => !begun.has(item) && !expected.has(item))
    }

    /** Items that are tried alone, from the failure of their statement to the end of their own. */
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
      if (isFull) expected.set(item, `${item} failed: overloaded`)
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
        // The batch hears of it only at the end of the turn.
        else failed.push(...items)
        statement.fail(new ItemFault('bad data'))
      } else {
        record((item) => `${item} done`)
        statement.succeed()
      }
    }
    function checkStatements() {
      // Besides these only items that are tried alone, because a neighbour was at fault.
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
    expect(Object.fromEntries(answers)).toEqual(Object.fromEntries(expected))
    const firstRuns = [...new Set(statements.flat())]
    for (const key of 'abcdefgh') {
      const ofKey = (items: string[]) => items.filter((item) => keyOf(item) === key)
      const accepted = sent.filter((item) => !answers.get(item)?.endsWith('overloaded'))
      expect(ofKey(firstRuns)).toEqual(ofKey(accepted))
    }
  })
})

describe('in one database batch', async () => {
  const service = await openTestService()
  const admin = await service.addCompany()
  const secret = await service.newSecret(admin)
  await service.send(admin.companyId, secret, { type: 'warm.up', data: {} })

  /** Sends events that gather in few statements, behind one that hangs while the table is locked. */
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
    // Refused for its form by a statement of its own: by then the ones before it have arrived.
    expect((await service.send(admin.companyId, secret, { type: 'X', data: {} })).status).toBe(400)
    release()
    await blocker
    return await Promise.all(answers)
  }

  // Of the classes data, constraints, rollback, limits, locks, operator, errors of functions, and internal ones.
  test.for([
    ['22012', 500],
    ['23514', 500],
    ['40001', 503],
    ['40P01', 503],
    ['54000', 500],
    ['55P03', 503],
    ['57014', 503],
    ['P0001', 500],
    ['XX001', 500],
  ] as const)(
    'an event that the database refuses with %s fails alone, and its neighbours are stored',
    async ([code, status]) => {
      await sql`create or replace function refuse() returns trigger language plpgsql as $$
      begin
        if new.type = 'poison' then raise exception 'refused' using errcode = ${sql.lit(code)}; end if;
        return new;
      end $$`.execute(service.db)
      await sql`create or replace trigger refused before insert on events
      for each row execute function refuse()`.execute(service.db)

      const types = times(60, (index) => (index % 20 === 7 ? 'poison' : 'wholesome'))
      const answers = await sendTogether(
        types.map((type, index) => ({ id: `${code}-${index}`, type, data: {} })),
      )
      expect(answers.map((answer) => answer.status)).toEqual(
        types.map((type) => (type === 'poison' ? status : 202)),
      )
      const stored = await service.db
        .selectFrom('events')
        .select('event_id')
        .where('event_id', 'like', `${code}-%`)
        .execute()
      expect(stored.length).toBe(57)
    },
  )

  test('every session check gets its own answer, ended sessions beside live ones (ASVS 8.4.1)', async () => {
    const people = [
      admin,
      await service.addUser(admin),
      await service.addCompany(),
      await service.addCompany(),
    ]
    const credentials = await Promise.all(
      times(16, async (index) => {
        const person = people[index % people.length] ?? admin
        const { accessToken: token } = await service.loginAs(person)
        const ended = index % 5 === 0
        if (ended) await service.call('/auth/logout', { token })
        return { token, expected: ended ? 'session_ended' : person.userId }
      }),
    )
    const calls = times(320, (index) => credentials[index % credentials.length]).flatMap((one) => one ?? [])
    const answers = await Promise.all(calls.map(({ token }) => service.getSession({ token })))
    expect(answers.map(({ body }) => body.code ?? body.user.id)).toEqual(calls.map((one) => one.expected))
  })
})
