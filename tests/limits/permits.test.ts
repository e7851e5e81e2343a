import { describe, expect, test } from 'vitest'
import { type Ask, createWorkerPermits, grantTo, type Permits } from '../../src/limits/permits.ts'
import { createWindows } from '../../src/limits/windows.ts'
import { times } from '../support/test-service.ts'

/** Limits that are counted in memory hold for all workers of a machine (ASVS 2.4.1). */

const SECOND = 1_000
const counterOf = (max: number, value = 'a') => ({ name: 'tries', values: [value], max, windowSeconds: 1 })

/** Workers and their primary. */
function openMachine(count: number) {
  const windows = createWindows()
  const clock = { now: 0 }
  let asked = 0
  const ask = async (asks: Ask[]) => {
    asked += 1
    return grantTo(count, windows, asks, clock.now)
  }
  const workers = times(count, () => createWorkerPermits({ workers: count, ask }))
  const use = async (worker: Permits | undefined, max: number, value?: string) =>
    (await worker?.take(counterOf(max, value), clock.now))?.isGranted ?? false
  return { workers, use, clock, asked: () => asked }
}

async function countGranted(uses: Promise<boolean>[]): Promise<number> {
  return (await Promise.all(uses)).filter(Boolean).length
}

describe.each([2, 8, 32])('with %i workers', (count) => {
  test.each([1, 10, 60, 1_000, 6_000])('one alone can use a whole limit of %i', async (max) => {
    const { workers, use } = openMachine(count)
    expect(await countGranted(times(2 * max, () => use(workers[0], max)))).toBeGreaterThanOrEqual(max)
  })

  test.each([1, 10, 60, 1_000, 6_000])('all together use at most 110 %% of %i', async (max) => {
    const { workers, use } = openMachine(count)
    const granted = await countGranted(times(3 * max + 100, (n) => use(workers[n % count], max)))
    expect(granted).toBeGreaterThanOrEqual(max)
    expect(granted).toBeLessThanOrEqual(1.1 * max)
  })
})

test('one can use the whole limit although each of the others has taken a block of it', async () => {
  const { workers, use } = openMachine(8)
  expect(await countGranted(workers.slice(1).map((worker) => use(worker, 1_000)))).toBe(7)
  expect(await countGranted(times(2_000, () => use(workers[0], 1_000)))).toBeGreaterThanOrEqual(993)
})

test('few uses ask the primary, and those of one turn of the event loop ask together', async () => {
  const { workers, use, asked } = openMachine(2)
  for (const _ of times(500, () => {})) await use(workers[0], 1_000)
  expect(asked()).toBe(10)
  await Promise.all(times(20, (n) => use(workers[1], 1_000, `of ${n}`)))
  expect(asked()).toBe(11)
})

test('a limit that is used up is refused without asking, until its window is over', async () => {
  const { workers, use, clock, asked } = openMachine(2)
  const [worker] = workers
  expect(await countGranted(times(11, () => use(worker, 10)))).toBe(10)
  const before = asked()
  clock.now = SECOND - 1
  expect(worker?.usedUpUntil(counterOf(10), clock.now)).toBe(SECOND)
  expect(await use(worker, 10)).toBe(false)
  expect(asked()).toBe(before)
  clock.now = SECOND
  expect(worker?.usedUpUntil(counterOf(10), clock.now)).toBeUndefined()
  expect(await use(worker, 10)).toBe(true)
})

test('uses that come while an answer is on its way are asked for after it', async () => {
  const answers: (() => void)[] = []
  const windows = createWindows()
  const worker = createWorkerPermits({
    workers: 2,
    ask: (asks) => new Promise((resolve) => answers.push(() => resolve(grantTo(2, windows, asks, 0)))),
  })
  const take = () => Promise.resolve(worker.take(counterOf(10), 0)).then(({ isGranted }) => isGranted)
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  const first = [take(), take()]
  await turn()
  const later = times(12, take)
  expect(answers).toHaveLength(1)
  answers[0]?.()
  expect(await Promise.all(first)).toEqual([true, true])
  await turn()
  answers[1]?.()
  expect(await countGranted(later)).toBe(8)
})

test('a clock that is put back keeps nobody out for longer than two windows', async () => {
  const { workers, use, clock } = openMachine(2)
  clock.now = 10 * SECOND
  expect(await countGranted(times(11, () => use(workers[0], 10)))).toBe(10)
  clock.now = 0
  expect(await use(workers[0], 10)).toBe(false)
  // The worker and the primary notice one after the other.
  clock.now = SECOND
  await use(workers[0], 10)
  clock.now = 2 * SECOND
  expect(await use(workers[0], 10)).toBe(true)
})

test('a use that is given back can be taken again', async () => {
  const { workers, use, clock } = openMachine(2)
  const [worker] = workers
  expect(await countGranted(times(10, () => use(worker, 10)))).toBe(10)
  worker?.giveBack(counterOf(10), clock.now)
  expect(await countGranted(times(3, () => use(worker, 10)))).toBe(1)
})
