import type { Kind, Seen } from './honest.ts'
import type { Counts } from './requests.ts'
import type { Growth } from './target.ts'

export interface Figures {
  flood: string
  about: string
  seconds: { before: number; during: number }
  before: Measured
  during: Measured
  attack: Counts
  findings: Finding[]
}

export interface Measured {
  seen: Seen[]
  /** Peak of the service's resident memory; null where it cannot be read. */
  memoryMb: number | null
  written: Growth[]
}

export interface Finding {
  what: string
  measured: string
  isMet: boolean
  /** Whether a slow machine is enough to miss it. */
  isOfSpeed?: boolean
}

export type Aim = (figures: Figures) => Finding

export function succeed(least: number, ...kinds: Kind[]): Aim[] {
  return kinds.map((kind) => ({ during }) => {
    const share = during.seen.find((seen) => seen.kind === kind)?.share ?? 0
    const what = `${kind}: at least ${percent(least)} succeed`
    return { what, measured: percent(share), isMet: share >= least, isOfSpeed: true }
  })
}

/** A connection can end without a status, and a short flood without any. */
export function answered(...statuses: number[]): Aim {
  return ({ attack }) => {
    const got = Object.keys(attack).filter((code) => /^\d+$/.test(code))
    const isMet = (attack['sent'] ?? 0) > 0 && got.every((status) => statuses.includes(Number(status)))
    return { what: `attackers get only ${statuses.join(', ')}`, measured: got.join(', '), isMet }
  }
}

export function memoryBelow(mb: number): Aim {
  return ({ during: { memoryMb } }) => ({
    what: `memory below ${mb} MB`,
    measured: showMb(memoryMb),
    isMet: memoryMb !== null && memoryMb < mb,
  })
}

/** Rows that honest users did not write: `first`, plus `perMinute`. */
export function rowsAtMost(first: number, perMinute: number): Aim {
  return ({ before, during, seconds }) => {
    const rowsOf = ({ written }: Measured) => written.reduce((sum, { rows }) => sum + rows, 0)
    const honest = (rowsOf(before) * seconds.during) / seconds.before
    const rows = Math.max(0, Math.round(rowsOf(during) - honest))
    const most = first + Math.ceil((perMinute * seconds.during) / 60)
    return { what: `at most ${most} rows written`, measured: `about ${rows}`, isMet: rows <= most }
  }
}

/**
 * Divides the bytes of each table by rows, because tables grow in steps. Much is written in the first minute, so only a run of
 * an hour shows the total.
 */
export function megabytesInAnHourBelow(most: number): Aim {
  return ({ before, during, seconds }) => {
    const longer = seconds.during / seconds.before
    const honest = new Map(before.written.map(({ table, rows }) => [table, rows * longer]))
    const bytes = during.written.reduce((sum, { table, rows, bytes }) => {
      const share = 1 - (honest.get(table) ?? 0) / Math.max(1, rows)
      return sum + Math.max(0, share) * bytes
    }, 0)
    const mb = bytes / 2 ** 20
    const measured = `${mb.toFixed(1)} MB in ${seconds.during} s`
    return { what: `less than ${most} MB written in an hour`, measured, isMet: mb < most }
  }
}

export const showMb = (mb: number | null) => (mb === null ? 'unknown' : `${mb.toFixed(0)} MB`)

function percent(share: number): string {
  return `${Number((share * 100).toFixed(1))}%`
}
