import type { Figures } from '../measure/figures.ts'
import type { Machine } from './machine.ts'

/** The JSON report. */
export interface Report {
  wasInterrupted: boolean
  /** Whether the service and Postgres ran on this machine too. */
  sharesMachine: boolean
  machine: Machine
  command: string[]
  at: string
  figures: Figures[]
}

/** Whether every scenario had answers, none of them wrong, and no error other than a limit that was reached. */
export function isClean(figures: Pick<Figures, 'succeeded' | 'errors'>[]): boolean {
  return figures.every(
    ({ succeeded, errors }) => succeeded > 0 && Object.keys(errors).every((code) => code.startsWith('429')),
  )
}
