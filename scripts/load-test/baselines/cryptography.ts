import { join } from 'node:path'
import { firstMessage, startChild } from '../start-child.ts'
import type { Part } from './part.ts'

/** Signatures and hashes by themselves, in one thread. */
export type Work =
  | 'ES256 signature'
  | 'ES256 verification'
  | 'HMAC of a token'
  | 'HMAC of an event'
  | 'HMAC of 100 events'
  | 'argon2id'

/** The parts of an operation that needs this work, so many times each. */
export async function openCryptography(
  works: Partial<Record<Work, number>>,
  cleanup: AsyncDisposableStack,
): Promise<Part[]> {
  const child = startChild(join(import.meta.dirname, 'cryptography-process.ts'), {}, cleanup)
  await firstMessage(child)
  const measure = async (work: Work, durationMs: number) => {
    child.process.send({ work, durationMs })
    return Number(await firstMessage(child))
  }
  const names = Object.keys(works) as Work[]
  return names.map((name) => ({
    name,
    times: works[name] ?? 0,
    measure: (durationMs) => measure(name, durationMs),
  }))
}
