import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take minutes, and files that start processes or browsers. */
const LONG = [
  /\/(flood-test|fault-test|cluster)\//,
  /\/(load-test|workers|pages|startup|local|upgrade)\/|\/http\/shutdown\.|\/deploy\/proxy\./,
]

/** Runs the longest files first, so that no long one runs last. A new clone has no recorded times. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rankOf = ({ moduleId }: TestSpecification) =>
      [...LONG, /./].findIndex((pattern) => pattern.test(moduleId))
    return (await super.sort(files)).toSorted((one, other) => rankOf(one) - rankOf(other))
  }
}
