import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { requireCorrect } from '../drive/failure.ts'
import type { Operation } from '../drive/load.ts'
import { type Child, firstMessage, startChild } from '../start-child.ts'

/**
 * Password verifications with the service's parameters, and nothing else. They run in a process of their own,
 * because libuv reads the number of its threads only at the start, and its default of 4 leaves cores unused.
 */
export async function openRawArgon2(users: number, cleanup: AsyncDisposableStack): Promise<Operation[]> {
  const threads = String(availableParallelism() + 2)
  const file = join(import.meta.dirname, 'raw-argon2-process.ts')
  const child = startChild(file, { UV_THREADPOOL_SIZE: threads }, cleanup)
  await firstMessage(child)
  const waiting = receiveAnswers(child)
  return Array.from({ length: users }, (_, user) => async () => {
    const answer = Promise.withResolvers<boolean>()
    waiting.set(user, answer)
    child.process.send(user)
    requireCorrect(await answer.promise, 'argon2id')
  })
}

/** By number of the virtual user: each waits for one answer at a time, so its number tells answers apart. */
function receiveAnswers({ process: child, ended }: Child): Map<number, PromiseWithResolvers<boolean>> {
  const waiting = new Map<number, PromiseWithResolvers<boolean>>()
  child.on('message', ({ user, isMatch }: { user: number; isMatch: boolean }) =>
    waiting.get(user)?.resolve(isMatch),
  )
  ended.catch((error) => {
    for (const answer of waiting.values()) answer.reject(error)
  })
  return waiting
}
