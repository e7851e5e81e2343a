import { setTimeout as sleep } from 'node:timers/promises'
import { planFaults } from '../faults/plan.ts'
import type { Random } from '../random.ts'
import type { Stage } from './open-stage.ts'

/** Makes faults come and go, in one series or in two. */

/** A fault that was; `to` is when all was as before. */
export interface Done {
  name: string
  from: number
  to: number
  undoneAt: number
  /** What went wrong with it, which has to do with the target. */
  complaints: string[]
}

interface Options {
  seconds: number
  /** Which of those of the stage; each comes before one comes twice. */
  faults: readonly string[]
  /** Whether a second series goes on beside the first. */
  isOverlapping: boolean
  begunAt: number
  signal: AbortSignal
  say(line: string): void
}

/** A process that starts ends if its database is away, and another one takes its place. */
const STARTING_MS = 20_000

export async function disturb(
  { faults, watched, lasting, settle }: Stage,
  random: Random,
  { seconds, faults: names, isOverlapping, begunAt, signal, say }: Options,
): Promise<Done[]> {
  /** What is broken now. */
  const broken = new Map<string | undefined, Promise<void>>()
  /** Until when processes of instances ended in a fault. */
  let restartedUntil = 0
  const processes = () => watched.flatMap((one) => one.processes())

  async function one(name: string, by: Random, forMs: number): Promise<Done> {
    const fault = faults[name]
    if (!fault) throw new Error(`there is no fault ${name}`)
    await broken.get(fault.breaks)
    const before = processes()
    const from = performance.now()
    say(`${((from - begunAt) / 1000).toFixed(1)} s  ${name}`)
    const complaints: string[] = []
    if (fault.restarts) restartedUntil = Number.POSITIVE_INFINITY
    const running = fault.run(by, forMs).catch((error: unknown) => {
      complaints.push(String(error))
    })
    broken.set(fault.breaks, running)
    await running
    const undoneAt = performance.now()
    await settle().catch((error: unknown) => {
      complaints.push(String(error))
    })
    if (fault.restarts) restartedUntil = performance.now()
    const after = new Set(processes())
    const lost = restartedUntil + STARTING_MS < from ? before.filter((pid) => !after.has(pid)) : []
    complaints.push(...lost.map((pid) => `process ${pid} of an instance ended`))
    return { name, from, undoneAt, to: performance.now(), complaints }
  }

  async function series(of: string): Promise<Done[]> {
    const done: Done[] = []
    for (const { name, afterMs, forMs } of planFaults(random.of(of), names, seconds * 1000, lasting)) {
      if (signal.aborted || (done.length > 0 && performance.now() - begunAt > seconds * 1000)) break
      await sleep(afterMs)
      if (signal.aborted) break
      done.push(await one(name, random.of(`${of} ${done.length}`), forMs))
    }
    return done
  }

  return (await Promise.all((isOverlapping ? ['first', 'second'] : ['first']).map(series))).flat()
}
