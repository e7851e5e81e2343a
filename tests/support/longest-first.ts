import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** What takes minutes, and what starts processes or browsers. */
const LONG = [
  /\/(flood-test|fault-test|cluster)\//,
  /\/(load-test|workers|pages|startup|local|upgrade)\/|\/http\/shutdown\.|\/deploy\/proxy\./,
]

/** The longest files first, so that none of them is the last to run, alone. In a new clone no times are known yet. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rankOf = ({ moduleId }: TestSpecification) =>
      [...LONG, /./].findIndex((pattern) => pattern.test(moduleId))
    return (await super.sort(files)).toSorted((one, other) => rankOf(one) - rankOf(other))
  }
}
