import { UsageError } from '../../kit/command.ts'
import type { Random } from '../random.ts'

/** What can happen to a target. */
export interface Fault<Target> {
  what: string
  /** Whether processes of the instances end in it. */
  restarts?: boolean
  /** Breaks the target for about `ms`. Resolves after the break is undone. */
  run(target: Target, random: Random, ms: number): Promise<void>
}

/** Returns the faults with these names; by default all. @throws UsageError for an unknown name */
export function choose<F>(faults: Record<string, F>, names = Object.keys(faults)): Record<string, F> {
  const unknown = names.filter((name) => !(name in faults))
  if (unknown.length > 0) throw new UsageError(`there is no fault ${unknown.join(', ')}`)
  return Object.fromEntries(Object.entries(faults).filter(([name]) => names.includes(name)))
}

/** In milliseconds: at least, and at random less than so much more. */
export interface Lasting {
  least: number
  more: number
}

const CALM: Lasting = { least: 1_000, more: 1_500 }

/** Without an end: each fault comes once before any repeats. The same seed gives the same plan. */
export function* planFaults(random: Random, names: readonly string[], lasting: Lasting) {
  const chosen = ({ least, more }: Lasting) => least + random.below(more)
  for (let left: string[] = []; ; ) {
    if (left.length === 0) left = [...names]
    const name = random.pick(left)
    left = left.filter((other) => other !== name)
    // `afterMs`: after the previous one has ended.
    yield { name, afterMs: chosen(CALM), forMs: chosen(lasting) }
  }
}
