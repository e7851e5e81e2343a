import { openCryptography, type Work } from '../baselines/cryptography.ts'
import { type Part, partOf } from '../baselines/part.ts'
import { openSmallestAnswer } from '../baselines/smallest-answer.ts'
import type { Operation } from '../drive/load.ts'
import type { Target } from '../target/target.ts'

/** What the operations of a scenario cannot do without. */
interface Needs {
  target: Target
  connections: number
  cleanup: AsyncDisposableStack
  /** Statements, one row each unless said otherwise, and how many of each; undefined without a database. */
  statements: [name: string, operations: Operation[] | undefined, times?: number][]
  cryptography?: Partial<Record<Work, number>>
}

/** Undefined if the CPU time of Postgres cannot be read. */
export async function openParts(needs: Needs): Promise<Part[] | undefined> {
  const { target, connections, cleanup, statements, cryptography = {} } = needs
  const { postgresPid: pid } = target
  if (pid === undefined) return undefined
  const ofPostgres = statements.flatMap(([name, operations, times]) =>
    operations ? [partOf(name, { operations, pid }, times)] : [],
  )
  const { part } = await openSmallestAnswer(connections, cleanup)
  return [part, ...ofPostgres, ...(await openCryptography(cryptography, cleanup))]
}
