import { expect, test } from 'vitest'
import { SilentDatabaseError, watchForSilence } from '../../src/database/faults.ts'

/** How it is noticed that the database answers nobody. startup/database-away.test.ts has a database that does so. */

const never = () => new Promise<never>(() => {})
const unanswered = () => Promise.reject(new Error('Query read timeout'))

/** A watch whose probes have these ends, one after the other, and are answered from then on. */
function watchWith(...ends: (() => Promise<void>)[]) {
  let probes = 0
  const awaitAnswer = watchForSilence(async () => {
    probes += 1
    await ends[probes - 1]?.()
  }, 1)
  return { awaitAnswer, probes: () => probes }
}

test.for([
  ['answers the probe', 1, []],
  ['answers the second probe only', 2, [unanswered]],
  ['refuses the probe', 1, [() => Promise.reject(Object.assign(new Error('too many'), { code: '53300' }))]],
] as const)('a slow database that %s is awaited', async ([, count, ends]) => {
  const { awaitAnswer, probes } = watchWith(...ends)
  const { promise: answer, resolve } = Promise.withResolvers<string>()
  const waiting = awaitAnswer(() => answer)
  await expect.poll(probes).toBe(count)
  expect(await awaitAnswer(async () => 'another answer')).toBe('another answer')
  resolve('an answer')
  expect(await waiting).toBe('an answer')
  expect(probes()).toBe(count)
})

test('a silent database is not asked until it answers a probe (ASVS 16.5.2)', async () => {
  const { promise: again, resolve } = Promise.withResolvers<void>()
  const { awaitAnswer } = watchWith(unanswered, unanswered, unanswered, () => again)
  const waiting = [awaitAnswer(never), awaitAnswer(never)]
  for (const one of waiting) await expect(one).rejects.toThrow(SilentDatabaseError)
  let asked = 0
  const ask = async () => {
    asked += 1
    return asked
  }
  await expect(awaitAnswer(ask)).rejects.toThrow(SilentDatabaseError)
  expect(asked).toBe(0)
  resolve()
  await expect.poll(() => awaitAnswer(ask).catch(() => {})).toBe(1)
})
