import { UsageError } from '../../kit/command.ts'
import type { Random } from '../random.ts'

export interface Fault<Target> {
  what: string
  /** Whether it ends processes of the instances. */
  restarts?: boolean
  /** Resolves when the fault is undone, after about `ms`. */
  run(target: Target, random: Random, ms: number): Promise<void>
}

/** @throws UsageError for an unknown name */
export function choose<F>(faults: Record<string, F>, names = Object.keys(faults)): Record<string, F> {
  const unknown = names.filter((name) => !(name in faults))
  if (unknown.length > 0) throw new UsageError(`Unknown fault: ${unknown.join(', ')}.`)
  return Object.fromEntries(Object.entries(faults).filter(([name]) => names.includes(name)))
}

/** In milliseconds: from `least` to `least + more`, at random. */
export interface Lasting {
  least: number
  more: number
}

const CALM: Lasting = { least: 1_000, more: 1_500 }

/** Endless. Each fault comes once before any repeats. */
export function* planFaults(random: Random, names: readonly string[], lasting: Lasting) {
  const chosen = ({ least, more }: Lasting) => least + random.below(more)
  for (let left: string[] = []; ; ) {
    if (left.length === 0) left = [...names]
    const name = random.pick(left)
    left = left.filter((other) => other !== name)
    // `afterMs`: after the end of the previous one.
    yield { name, afterMs: chosen(CALM), forMs: chosen(lasting) }
  }
}
