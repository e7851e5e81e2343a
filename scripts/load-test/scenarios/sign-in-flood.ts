import { join } from 'node:path'
import { firstMessage, startChild } from '../start-child.ts'
import type { Target } from '../target/target.ts'
import type { Disturbance } from './scenario.ts'

const CLIENTS = 200

/**
 * Starts clients that sign in over and over, in a process of their own; returns when the first is answered. Each is another
 * user, since the 201st session of one would end a session that other operations use.
 */
export async function startSignInFlood(
  { url, people }: Target,
  cleanup: AsyncDisposableStack,
): Promise<Disturbance> {
  const child = startChild(
    join(import.meta.dirname, 'sign-in-flood-process.ts'),
    { TARGET_URL: url, CREDENTIALS: JSON.stringify(people.slice(0, CLIENTS)), CLIENTS: String(CLIENTS) },
    cleanup,
  )
  let answers: Record<string, number> = {}
  child.process.on('message', (message: Record<string, number>) => {
    answers = message
  })
  await firstMessage(child)
  return {
    async stop() {
      // If the flood ended before the round did, the round was not measured under it.
      if (!child.process.kill('SIGKILL')) await child.ended
      await child.ended.catch(() => {})
      const counts = Object.entries(answers).map(([status, count]) => `${count} × ${status}`)
      return `${CLIENTS} clients signed in at the same time: ${counts.join(', ')}`
    },
  }
}
