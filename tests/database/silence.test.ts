import { expect, test } from 'vitest'
import { SilentDatabaseError, watchForSilence } from '../../src/database/faults.ts'

/** Detection of a database that does not respond. startup/database-away.test.ts has a real one. */

const never = () => new Promise<never>(() => {})
const unanswered = () => Promise.reject(new Error('Query read timeout'))

/** A watch whose probes end like this, in order, and succeed after that. */
function watchWith(...ends: (() => Promise<void>)[]) {
  let probes = 0
  const awaitAnswer = watchForSilence(async () => {
    probes += 1
    await ends[probes - 1]?.()
  }, 1)
  return { awaitAnswer, probes: () => probes }
}

test.for([
  ['responds to the probe', 1, []],
  ['responds only to the second probe', 2, [unanswered]],
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

test('a silent database gets no queries until it responds to a probe (ASVS 16.5.2)', async () => {
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
