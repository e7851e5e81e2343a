import { once } from 'node:events'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { firstMessage, startChild } from '../../kit/child.ts'
import type { Counts } from '../generators/attack.ts'
import type { AttackSetup } from './attack-process.ts'

/** Starts floods in a process of their own, which has one core, so that not the generator is measured. */
export async function startAttack(
  setup: AttackSetup,
  cleanup: AsyncDisposableStack,
): Promise<{ stop(): Promise<Counts> }> {
  const child = startChild(join(import.meta.dirname, 'attack-process.ts'), {}, cleanup, cpus().length - 1)
  child.process.send(setup)
  await firstMessage(child)
  return {
    async stop() {
      child.process.send('stop')
      const [counts]: Counts[] = await Promise.race([once(child.process, 'message'), child.ended])
      return counts ?? {}
    },
  }
}
