import { expect, test } from 'vitest'
import { type Applicant, createAdmission } from '../../src/limits/admission.ts'

/** Work that ends only when the test ends it. */
function startWork(count: number, run: (work: () => Promise<number>) => Promise<number>) {
  const begun: number[] = []
  const ends = Array.from({ length: count }, () => Promise.withResolvers<number>())
  const results = ends.map(({ promise }, index) =>
    run(() => {
      begun.push(index)
      return promise
    }),
  )
  return { begun, ends, settled: Promise.allSettled(results) }
}

/** An admission for one client, in order of arrival. */
function openAdmission(options: { slots: number; maxWaiting: number; isOutage?(): boolean }) {
  const admission = createAdmission(options)
  const run = (work: () => Promise<number>, signal?: AbortSignal) =>
    admission.run({ network: '192.0.2.1', isKnown: false, ...(signal && { signal }) }, work)
  return { admission, run }
}

/** Lets everything continue that can. */
const settle = () => new Promise((resolve) => setImmediate(resolve))

test('an admission runs as many calls as it has slots, then queues (ASVS 15.1.3, 15.2.2)', async () => {
  const { admission, run } = openAdmission({ slots: 2, maxWaiting: 2 })
  const { begun, ends, settled } = startWork(5, run)
  expect([begun, admission.waiting]).toEqual([[0, 1], 2])
  ends[1]?.resolve(1)
  await settle()
  expect([begun, admission.waiting]).toEqual([[0, 1, 2], 1])
  for (const { resolve } of ends) resolve(0)
  expect((await settled).at(-1)).toEqual({
    status: 'rejected',
    reason: expect.objectContaining({ code: 'overloaded' }),
  })
  expect([begun, admission.waiting]).toEqual([[0, 1, 2, 3], 0])
  const { begun: next } = startWork(3, run)
  expect(next).toEqual([0, 1])
})

test('an admission passes the slot of a failed call to the next', async () => {
  const { run } = openAdmission({ slots: 1, maxWaiting: 1 })
  const { begun, ends, settled } = startWork(2, run)
  ends[0]?.reject(new Error('failed'))
  ends[1]?.resolve(1)
  expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
  expect(begun).toEqual([0, 1])
  expect(await run(async () => 4)).toBe(4)
})

test('an admission does not start a call whose client has left', async () => {
  const { run } = openAdmission({ slots: 1, maxWaiting: 3 })
  const leaving = new AbortController()
  const signals = [undefined, leaving.signal, leaving.signal, undefined].values()
  const { begun, ends, settled } = startWork(4, (work) => run(work, signals.next().value))
  leaving.abort()
  for (const { resolve } of ends) resolve(1)
  const statuses = (await settled).map(({ status }) => status).join(' ')
  expect(statuses).toBe('fulfilled rejected rejected fulfilled')
  expect(begun).toEqual([0, 3])
  expect(await run(async () => 4)).toBe(4)
})

test('an admission fails all waiting calls on an outage (ASVS 16.5.2)', async () => {
  const { admission, run } = openAdmission({ slots: 1, maxWaiting: 3, isOutage: () => true })
  const { begun, ends, settled } = startWork(3, run)
  const outage = new Error('outage')
  ends[0]?.reject(outage)
  expect(await settled).toEqual(Array(3).fill({ status: 'rejected', reason: outage }))
  expect([begun, admission.waiting]).toEqual([[0], 0])
  expect(await run(async () => 4)).toBe(4)
})

/** With one slot: names of calls in the order in which they ran, and of refused ones. */
async function runAll(
  calls: [name: string, applicant: Applicant][],
  bounds: { maxWaiting: number; maxPerSender?: number },
) {
  const admission = createAdmission({ slots: 1, ...bounds })
  const [ran, refused]: string[][] = [[], []]
  const all = calls.map(async ([name, applicant]) => {
    await admission.run(applicant, async () => ran?.push(name)).catch(() => refused?.push(name))
  })
  await Promise.all(all)
  return [ran?.join(' '), refused?.join(' ')]
}

test('an admission alternates between known clients and strangers (ASVS 15.2.2, 15.4.4)', async () => {
  const stranger = { network: '192.0.2.1', isKnown: false }
  const known = { network: '198.51.100.1', isKnown: true }
  const flood = ['s1', 's2', 's3', 's4', 's5', 's6'].map((name): [string, Applicant] => [name, stranger])
  const calls: [string, Applicant][] = [...flood, ['k1', known], ['k2', known], ['k3', known]]
  expect(await runAll(calls, { maxWaiting: 4 })).toEqual(['s1 k1 s2 k2 s3 k3 s4 s5', 's6'])
})

test('/48s and known devices of a network each have a queue share', async () => {
  const inside = (subnet: number, isKnown = false) => ({ network: `2001:db8:1:${subnet}::`, isKnown })
  const calls: [string, Applicant][] = [
    ['first', inside(0)],
    ['a1', inside(1)],
    ['a2', inside(2)],
    ['a3', inside(3)],
    ['b1', { network: '192.0.2.1', isKnown: false }],
    ['k1', inside(1, true)],
    ['k2', inside(1, true)],
    ['k3', inside(1, true)],
    ['d1', { ...inside(1, true), device: 'phone' }],
  ]
  expect(await runAll(calls, { maxWaiting: 10, maxPerSender: 2 })).toEqual([
    'first k1 a1 k2 a2 d1 b1',
    'a3 k3',
  ])
})
