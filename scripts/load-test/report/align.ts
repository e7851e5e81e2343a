/** Rows as lines. The first and the last column are words and align to the left, numbers align to the right. */
export function alignColumns(rows: string[][]): string[] {
  const columns = Math.max(0, ...rows.map((row) => row.length))
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  )
  const align = (cell: string, column: number) => {
    const width = widths[column] ?? 0
    const isWords = column === 0 || column === columns - 1
    return isWords ? cell.padEnd(width) : cell.padStart(width)
  }
  return rows.map((row) => row.map(align).join('  ').trimEnd())
}
