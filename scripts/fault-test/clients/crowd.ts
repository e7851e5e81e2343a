import { once } from 'node:events'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { firstMessage, startChild } from '../../kit/child.ts'
import type { CrowdSeen, CrowdSetup } from './crowd-process.ts'

/** Many clients, each of which asks every four seconds or so and waits for its answer: in an outage, all of them wait. */
export interface Crowd {
  /** What they saw, and what of it is neither an answer nor 503 nor a lost connection. */
  stop(): Promise<CrowdSeen & { violations: string[] }>
}

const Seen = TypeCompiler.Compile(
  Type.Object({ succeeded: Type.Integer(), errors: Type.Record(Type.String(), Type.Integer()) }),
)
/** 502 and 504 are a proxy's words for connections that were closed or are silent. */
const OF_OUTAGES = /^(50[234]( |$)|timeout$|E[A-Z]+$|UND_ERR_)/

export async function startCrowd(setup: CrowdSetup, cleanup: AsyncDisposableStack): Promise<Crowd> {
  const child = startChild(join(import.meta.dirname, 'crowd-process.ts'), {}, cleanup)
  child.process.send(setup)
  await firstMessage(child)
  return {
    async stop() {
      child.process.send('stop')
      const [seen]: unknown[] = await Promise.race([once(child.process, 'message'), child.ended])
      if (!Seen.Check(seen)) throw new Error('the crowd said something else')
      const others = Object.entries(seen.errors).filter(([code]) => !OF_OUTAGES.test(code))
      return { ...seen, violations: others.map(([code, count]) => `${count} of a crowd got ${code}`) }
    },
  }
}
