import type { Figures } from '../measure/figures.ts'
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

/** The first and the last column are words and align to the left, numbers align to the right. */
function alignColumns(rows: string[][]): string[] {
  const widths = COLUMNS.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const align = (cell: string, column: number) => {
    const width = widths[column] ?? 0
    const isWords = column === 0 || column === COLUMNS.length - 1
    return isWords ? cell.padEnd(width) : cell.padStart(width)
  }
  return rows.map((row) => row.map(align).join('  ').trimEnd())
}
