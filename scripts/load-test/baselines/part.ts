import { drive } from '../drive/drive.ts'
import type { Operation } from '../drive/load.ts'
import { usageOf } from '../process-usage.ts'

/** Work that an operation cannot do without, measured by itself. */
export interface Part {
  name: string
  /** How many times an operation needs it. */
  times: number
  /** CPU time in milliseconds for doing it once, measured for so long; null where it cannot be read. */
  measure(durationMs: number, signal: AbortSignal): Promise<number | null>
}

/** Work that virtual users ask of a process, with its children. */
export function partOf(
  name: string,
  { operations, pid }: { operations: Operation[]; pid: number | undefined },
  times = 1,
): Part {
  return {
    name,
    times,
    async measure(durationMs, signal) {
      const before = usageOf(pid)
      const { succeeded } = await drive({ operations, durationMs, signal })
      const after = usageOf(pid)
      return before && after && succeeded > 0 ? (after.cpuMs - before.cpuMs) / succeeded : null
    },
  }
}
