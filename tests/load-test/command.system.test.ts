import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openFolder } from '../support/cleanup.ts'
import { startProgram } from '../support/program.ts'

const start = (line: string) => startProgram('load-test.ts', line.split(' '))

test('the load test compares gatehouse with a plain service', async () => {
  const json = join(await openFolder(), 'report.json')
  const scenarios = ['refresh', 'ingest-batch', 'verify']
  const { ended } = start(`--scenario ${scenarios} --duration 0.5 --rounds 1 --json ${json}`)
  const { code, stdout, stderr } = await ended
  expect(stderr).not.toMatch(/Error|Warning/)
  const { figures, machine } = JSON.parse(await readFile(json, 'utf8'))
  expect(machine.cores).toBeGreaterThan(0)
  expect(figures.map(({ scenario }: { scenario: string }) => scenario)).toEqual(scenarios)
  let succeeded = 0
  const errors: string[] = []
  for (const { scenario, gatehouse, plain, costRatios, parts } of figures) {
    expect(stdout).toContain(`\n${scenario} `)
    expect([scenario, plain === null]).toEqual([scenario, scenario === 'verify'])
    succeeded += gatehouse.succeeded
    errors.push(...Object.keys(gatehouse.errors), ...Object.keys(plain?.errors ?? {}))
    expect(gatehouse.p99).toBeGreaterThanOrEqual(gatehouse.p50)
    const hasParts = scenario !== 'verify'
    expect(Object.keys(parts).includes('smallest response')).toBe(hasParts)
    if (gatehouse.succeeded > 0) expect([scenario, costRatios.length]).toEqual([scenario, hasParts ? 1 : 0])
  }
  expect(succeeded).toBeGreaterThan(0)
  const isClean = figures.every(
    ({ gatehouse }: { gatehouse: { succeeded: number; errors: object } }) =>
      gatehouse.succeeded > 0 && Object.keys(gatehouse.errors).length === 0,
  )
  // The only error that a busy machine can cause is a slow request.
  expect(errors.filter((error) => !/^503|timed out$/.test(error))).toEqual([])
  expect(code).toBe(isClean ? 0 : 1)
})

test('Ctrl-C ends the load test, which still reports its measurements', async () => {
  const { child, ended } = start('--scenario session --duration 600 --rounds 600')
  child.stderr.on('data', (line) => {
    if (/session, round (?!1 )/.test(String(line))) child.kill('SIGINT')
  })
  const { code, stdout, stderr } = await ended
  expect(stderr).toMatch(/\nEnding/)
  expect(stdout).toContain('Ended early')
  expect(stdout).toMatch(/^session /m)
  expect(code).toBeLessThan(2)
})

test.each([
  ['--scenario dance', 'Unknown scenario: dance.'],
  ['--json /nowhere/report.json', 'The report cannot be written'],
])('%s is refused with an explanation', async (line, sentence) => {
  const { code, stderr } = await start(line).ended
  expect(code).toBe(1)
  expect(stderr).toContain(sentence)
  expect(stderr).not.toContain('    at ')
})
