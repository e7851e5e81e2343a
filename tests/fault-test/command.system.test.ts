import { expect, test } from 'vitest'
import { CLUSTER_FAULTS } from '../../scripts/fault-test/faults/cluster-list.ts'
import { planFaults } from '../../scripts/fault-test/faults/fault.ts'
import { FAULTS } from '../../scripts/fault-test/faults/list.ts'
import { createRandom } from '../../scripts/fault-test/random.ts'
import { startProgram } from '../support/program.ts'

/** Covers only the command line. The fault test itself runs in fault.system.test.ts. */

const run = (args: string[]) => startProgram('fault-test.ts', args).ended

test.each([
  ['--faults latency,earthquake', 'Unknown fault: earthquake.'],
  ['--cluster --faults latency', 'Unknown fault: latency.'],
  ['--seconds 0', '--seconds must be a whole number above 0 and at most 600, not 0'],
])('%s is refused with an explanation', async (line, sentence) => {
  const { code, stdout, stderr } = await run(line.split(' '))
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toContain(sentence)
  expect(stderr).not.toContain('    at ')
})

test('the help names every fault', async () => {
  const { code, stdout } = await run(['--help'])
  expect(code).toBe(0)
  for (const name of Object.keys({ ...FAULTS, ...CLUSTER_FAULTS })) expect(stdout).toContain(`\n  ${name} `)
})

test('a seed repeats its plan, which has every fault before any repeats', () => {
  const names = Object.keys(FAULTS)
  const lasting = { least: 1_000, more: 5_000 }
  const plan = (seed: string) => [...planFaults(createRandom(seed), names, lasting).take(2 * names.length)]
  expect(plan('one')).toEqual(plan('one'))
  expect(plan('one')).not.toEqual(plan('two'))
  const first = plan('one').slice(0, names.length)
  expect(new Set(first.map(({ name }) => name))).toEqual(new Set(names))
})
