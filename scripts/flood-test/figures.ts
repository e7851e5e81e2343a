import type { Counts } from './generators/attack.ts'
import type { Seen } from './honest/kinds.ts'
import type { TableGrowth } from './target/tables.ts'

/** The result of one flood, as the JSON report has it. */
export interface Figures {
  flood: string
  about: string
  /** Of the honest load alone, and of the flood with the honest load beside it. */
  idleSeconds: number
  floodSeconds: number
  /** What honest users saw without and with the flood. */
  idle: Seen[]
  flooded: Seen[]
  /** What the attackers did and were answered. */
  attack: Counts
  /** Peak of the service's resident memory; null where it cannot be read. */
  memoryMb: { idle: number | null; flooded: number | null }
  /** What was written while the flood went on, and what the honest load alone writes in that time. */
  tables: { flooded: TableGrowth[]; honest: TableGrowth[] }
  findings: Finding[]
  verdicts: Verdict[]
}

/** Something measured beside the honest load. */
export interface Finding {
  what: string
  value: number | string
  unit: string
  /** Undefined if nothing is aimed at. */
  isMet?: boolean
}

export interface Verdict {
  /** The aim as a sentence. */
  aim: string
  /** What was measured. */
  measured: string
  isMet: boolean
}
