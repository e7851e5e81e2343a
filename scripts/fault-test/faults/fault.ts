import type { Random } from '../random.ts'

/**
 * What can happen. It lasts about as long as it is told, and resolves when what it did has been undone. `restarts`: processes of
 * the instances end in it.
 */
export interface Fault {
  what: string
  /** Two faults never break the same at once. Without it, one comes at a time. */
  breaks?: string
  restarts?: boolean
  run(random: Random, ms: number): Promise<void>
}

/** What can happen to such a target. */
export interface FaultOf<Target> extends Omit<Fault, 'run'> {
  run(target: Target, random: Random, ms: number): Promise<void>
}

/** What can happen to this target. */
export function bind<Target>(faults: Record<string, FaultOf<Target>>, target: Target): Record<string, Fault> {
  const bound = ([name, fault]: [string, FaultOf<Target>]): [string, Fault] => [
    name,
    { ...fault, run: (random, ms) => fault.run(target, random, ms) },
  ]
  return Object.fromEntries(Object.entries(faults).map(bound))
}
