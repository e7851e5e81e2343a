import type { Figures, Verdict } from './figures.ts'
import { type Kind, type Seen, SIGN_INS } from './honest/kinds.ts'

/** What has to hold under a flood. */
export type Aim = (figures: Figures) => Verdict[]

/** Of these requests of honest users, at least this share succeeds. */
export function succeed(least: number, ...kinds: Kind[]): Aim {
  return ({ flooded }) =>
    kinds.map((kind) => {
      const share = find(flooded, kind)?.share ?? 0
      return {
        aim: `${kind}: at least ${percent(least)} succeed`,
        measured: percent(share),
        isMet: share >= least,
      }
    })
}

/** All sign-ins of honest users, wherever they come from. */
export const signInsSucceed = (least: number): Aim => succeed(least, ...SIGN_INS)

export function memoryBelow(mb: number): Aim {
  return ({ memoryMb: { flooded } }) => {
    if (flooded === null) return []
    return [{ aim: `memory below ${mb} MB`, measured: `${flooded.toFixed(0)} MB`, isMet: flooded < mb }]
  }
}

/** Rows that the flood adds to what honest users write: so many at once, and so many a minute. */
export function rowsAtMost(once: number, perMinute: number): Aim {
  return ({ tables: { flooded, honest }, floodSeconds }) => {
    const sum = (growths: { rows: number }[]) => growths.reduce((total, { rows }) => total + rows, 0)
    const rows = Math.max(0, sum(flooded) - sum(honest))
    const most = once + Math.ceil((perMinute * floodSeconds) / 60)
    return [{ aim: `at most ${most} rows written`, measured: `about ${rows}`, isMet: rows <= most }]
  }
}

/**
 * The bytes that the flood writes, at its pace: of each table, its share of the rows. (The bytes of honest users alone
 * are measured too shortly, since tables grow in steps.) What an hour allows is written at its beginning.
 */
export function megabytesAnHourBelow(most: number): Aim {
  return ({ tables: { flooded, honest }, floodSeconds }) => {
    const honestRows = new Map(honest.map(({ table, rows }) => [table, rows]))
    const bytes = flooded.reduce((sum, growth) => {
      const share = 1 - (honestRows.get(growth.table) ?? 0) / Math.max(1, growth.rows)
      return sum + Math.max(0, share) * growth.bytes
    }, 0)
    const added = bytes / 2 ** 20
    const anHour = (added * 3600) / floodSeconds
    const measured = `${added.toFixed(1)} MB in ${floodSeconds} s, at that pace ${anHour.toFixed(0)} MB an hour`
    return [{ aim: `less than ${most} MB an hour written`, measured, isMet: anHour < most }]
  }
}

/** The verdicts on findings that have an aim of their own. */
export const findingsHold: Aim = ({ findings }) =>
  findings.flatMap(({ what, value, unit, isMet }) =>
    isMet === undefined ? [] : [{ aim: what, measured: showFinding(value, unit), isMet }],
  )

/** A value with its unit, to one digit after the point. */
export function showFinding(value: number | string, unit: string): string {
  return `${typeof value === 'string' ? value : Number(value.toFixed(1))} ${unit}`.trimEnd()
}

function find(seen: Seen[], kind: Kind): Seen | undefined {
  return seen.find((one) => one.kind === kind)
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(1))} %`
}
