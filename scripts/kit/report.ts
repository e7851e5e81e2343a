import { writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { UsageError } from './command.ts'

const [first] = cpus()
const MACHINE = {
  cores: cpus().length,
  cpu: first?.model.trim() ?? 'unknown',
  memoryGb: Math.round(totalmem() / 2 ** 30),
  node: process.version,
}

export function describeMachine(): string {
  const { cores, cpu, memoryGb, node } = MACHINE
  return `${cores} cores (${cpu}), ${memoryGb} GB, Node ${node}, shared by the load generator, services, and Postgres`
}

/** Call it before measuring, so that no figures get lost. @throws UsageError */
export async function requireWritable(file: string | undefined): Promise<void> {
  if (file === undefined) return
  await writeFile(file, '', { flag: 'a' }).catch((error) => {
    throw new UsageError(`The report cannot be written: ${error.message}.`)
  })
}

export async function writeReport(file: string | undefined, content: object): Promise<void> {
  if (file === undefined) return
  const about = { machine: MACHINE, command: process.argv.slice(2), at: new Date().toISOString() }
  await writeFile(file, `${JSON.stringify({ ...about, ...content }, null, 2)}\n`)
}

/** The first and the last column contain words, which align to the left. Numbers align to the right. */
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
