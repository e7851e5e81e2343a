import type { Second } from './measurement.ts'

/** One request and the check of its answer. A virtual user repeats it until it returns null: nothing left to do. */
export type Operation = () => Promise<void> | null

export interface Load {
  /** One for each virtual user. */
  operations: Operation[]
  durationMs: number
  /** Open loop: operations a second that are due, answered or not. Closed loop without it. */
  rate?: number | undefined
  signal?: AbortSignal | undefined
  onSecond?(second: Second, leftSeconds: number): void
}

/** `startedAt` and the clock are those of `performance.now()`. */
export function isOver({ durationMs, signal }: Load, startedAt: number): boolean {
  return performance.now() >= startedAt + durationMs || signal?.aborted === true
}
