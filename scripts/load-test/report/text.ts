import type { Figures } from '../measure/figures.ts'
import { alignColumns } from './align.ts'
import { COLUMNS, remarksOf } from './columns.ts'

/** The table for the terminal, with remarks below it. */
export function toText(figures: Figures[]): string {
  const rows = [
    COLUMNS.map(([title]) => title),
    ...figures.map((one) => COLUMNS.map(([, show]) => show(one))),
  ]
  const remarks = figures.flatMap((one) => remarksOf(one).map((remark) => `${one.scenario}: ${remark}`))
  return [...alignColumns(rows), ...(remarks.length > 0 ? ['', ...remarks] : [])].join('\n')
}
