import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** What takes minutes, and what starts processes or browsers. */
const LONG = [
  /\/(flood-test|fault-test|cluster)\//,
  /\/(load-test|workers|pages|startup|local|upgrade)\/|\/http\/shutdown\.|\/deploy\/proxy\./,
]

/** The longest files first, so that none of them is the last to run, alone. In a new clone no times are known yet. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const rankOf = ({ moduleId }: TestSpecification) => {
      const rank = LONG.findIndex((pattern) => pattern.test(moduleId))
      return rank === -1 ? LONG.length : rank
    }
    return sorted.toSorted((one, other) => rankOf(one) - rankOf(other))
  }
}
