import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** What starts processes or browsers takes longest. */
const LONG = /\/(workers|pages|startup|local|upgrade)\/|\/http\/shutdown\./

/** The longest files first, so that none of them is the last to run, alone. In a new clone no times are known yet. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return [true, false].flatMap((isLong) => sorted.filter(({ moduleId }) => LONG.test(moduleId) === isLong))
  }
}
