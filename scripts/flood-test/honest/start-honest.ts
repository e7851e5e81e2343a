import { once } from 'node:events'
import { join } from 'node:path'
import { firstMessage, startChild } from '../../kit/child.ts'
import type { HonestRun, HonestSetup } from './honest-process.ts'
import type { Seen } from './kinds.ts'

export interface HonestLoad {
  /** Sends it for so long and returns what honest users saw. */
  run(durationMs: number): Promise<Seen[]>
}

/** Signs the honest users in, in a process of their own. */
export async function startHonest(setup: HonestSetup, cleanup: AsyncDisposableStack): Promise<HonestLoad> {
  const child = startChild(join(import.meta.dirname, 'honest-process.ts'), {}, cleanup)
  child.process.send(setup)
  await firstMessage(child)
  return {
    async run(durationMs) {
      const run: HonestRun = { durationMs }
      child.process.send(run)
      const [seen]: Seen[][] = await Promise.race([once(child.process, 'message'), child.ended])
      return seen ?? []
    },
  }
}
