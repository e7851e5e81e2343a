import type { Random } from '../random.ts'

/** Which fault comes when. The same seed makes the same plan. */
export interface Planned {
  name: string
  /** After the one before has ended. */
  afterMs: number
  forMs: number
}

/** Between two of one series. */
export const CALM_MS = { least: 3_000, more: 4_000 }

/** How long a fault lasts, in milliseconds. */
export interface Lasting {
  least: number
  /** At random, less than so much more. */
  more: number
}

/** For about so long. Each of the names comes once before any comes again. */
export function planFaults(
  random: Random,
  names: readonly string[],
  ms: number,
  { least, more }: Lasting,
): Planned[] {
  const plan: Planned[] = []
  let left: string[] = []
  for (let total = 0; total < ms; ) {
    if (left.length === 0) left = [...names]
    const name = random.pick(left)
    left = left.filter((other) => other !== name)
    const afterMs = CALM_MS.least + random.below(CALM_MS.more)
    const forMs = least + random.below(more)
    total += afterMs + forMs
    plan.push({ name, afterMs, forMs })
  }
  return plan
}
