import { setTimeout as sleep } from 'node:timers/promises'
import { type Fault, type Lasting, planFaults } from '../faults/fault.ts'
import type { Random } from '../random.ts'
import type { Site } from '../target/site.ts'
import type { Done } from './report.ts'

export interface RunOptions {
  seed: string
  /** Each fault comes at least once, even if that takes longer. */
  seconds: number
  lasting: Lasting
  signal: AbortSignal
  say(line: string): void
}

export async function disturb<Target extends Site>(
  target: Target,
  faults: Record<string, Fault<Target>>,
  random: Random,
  { seconds, lasting, begunAt, signal, say }: RunOptions & { begunAt: number },
): Promise<Done[]> {
  const processes = () => target.instances.flatMap((one) => one.processes())
  const names = Object.keys(faults)
  const done: Done[] = []
  /** Processes from before the previous fault. A newer one may end if its database is away. */
  let settled = new Set(processes())
  for (const { name, afterMs, forMs } of planFaults(random.of('plan'), names, lasting)) {
    if (done.length >= names.length && performance.now() - begunAt > seconds * 1000) break
    await sleep(afterMs)
    const fault = faults[name]
    if (signal.aborted || !fault) break
    const before = processes()
    const from = performance.now()
    say(`${((from - begunAt) / 1000).toFixed(1)} s  ${name}`)
    const complaints: string[] = []
    const complain = (error: unknown) => void complaints.push(String(error))
    await fault.run(target, random.of(`${name} ${done.length}`), forMs).catch(complain)
    await target.settle().catch(complain)
    const to = performance.now()
    const after = new Set(processes())
    const lost = fault.restarts ? [] : before.filter((pid) => settled.has(pid) && !after.has(pid))
    complaints.push(...lost.map((pid) => `process ${pid} of an instance ended`))
    settled = new Set(before)
    done.push({ name, from, to, complaints })
  }
  return done
}
