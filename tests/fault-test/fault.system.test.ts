import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { choose } from '../../scripts/fault-test/faults/fault.ts'
import { FAULTS } from '../../scripts/fault-test/faults/list.ts'
import { toText } from '../../scripts/fault-test/run/report.ts'
import { runFaults } from '../../scripts/fault-test/run/run-faults.ts'
import { openPair } from '../../scripts/fault-test/target/pair.ts'
import { copyProject } from '../../scripts/kit/checkout.ts'

/** Runs each fault on the real service, and on copies that break a promise. */

const OPTIONS = {
  seed: 'slow',
  seconds: 1,
  lasting: { least: 2_000, more: 1 },
  signal: new AbortController().signal,
  say: console.log,
}

test('no fault breaks a promise, and none ends the service (ASVS 16.5.3)', async () => {
  await using cleanup = new AsyncDisposableStack()
  const target = await openPair({}, cleanup)
  const result = await runFaults(target, FAULTS, OPTIONS, cleanup)
  console.log(toText(result))
  expect(result.violations).toEqual([])
  expect(result.outcomes['ok']).toBeGreaterThan(1_000)
  expect(result.faults.map(({ name }) => name).toSorted()).toEqual(Object.keys(FAULTS).toSorted())
  expect(result.faults.filter(({ backMs }) => !Number.isFinite(backMs))).toEqual([])
})

/** The fragment that is replaced in a file, and how the violation's report begins. */
interface Break {
  file: string
  fragment: string
  replacement: string
  found: RegExp
}

const SPENT: Break = {
  file: 'src/session/rotation-fragments.ts',
  fragment: 'l.token_generation = l.generation`',
  replacement: 'l.token_generation >= l.generation - 1`',
  found: /^session .*POST \/auth\/refresh/,
}
const REPLACED_EVENT: Break = {
  file: 'src/ingest/repository.ts',
  fragment: `and not exists (select from events e where e.company_id = i.company_id and e.event_id = i.event_id)
      order by i.company_id, i.event_id
      \${ifTaken}`,
  replacement: `order by i.company_id, i.event_id
      on conflict (company_id, event_id) do update set data = excluded.data`,
  found: /^event /,
}
const NOT_ON_DISK: Break = {
  file: 'src/database/settings.ts',
  fragment: "plan_cache_mode: 'force_generic_plan',",
  replacement: "plan_cache_mode: 'force_generic_plan', synchronous_commit: 'off',",
  found: /^(session|event|secret) /,
}
const MOST_RUNS = 4

test.each<[name: string, breaks: Break[], fault: string]>([
  ['used refresh tokens work again, and events are replaced', [SPENT, REPLACED_EVENT], 'latency'],
  ['a commit is acknowledged before it is on disk', [NOT_ON_DISK], 'postgres-killed'],
])('the fault test finds that %s', async (_, breaks, fault) => {
  await using cleanup = new AsyncDisposableStack()
  const project = await copyProject(cleanup)
  for (const one of breaks) await replaceOnce(project, one)
  // Clients hit each violation only by chance.
  const found: string[] = []
  const isFound = (one: Break) => found.some((what) => one.found.test(what))
  for (let run = 1; run <= MOST_RUNS && !breaks.every(isFound); run += 1) {
    await using ended = new AsyncDisposableStack()
    const options = { ...OPTIONS, seed: `slow ${run}`, seconds: 10 }
    const target = await openPair({ project }, ended)
    const result = await runFaults(target, choose(FAULTS, [fault]), options, ended)
    found.push(...result.violations.map(({ what }) => what))
  }
  for (const one of breaks) expect(found).toContainEqual(expect.stringMatching(one.found))
})

async function replaceOnce(project: string, { file, fragment, replacement }: Break): Promise<void> {
  const text = await readFile(join(project, file), 'utf8')
  expect([file, text.split(fragment).length - 1]).toEqual([file, 1])
  await writeFile(
    join(project, file),
    text.replace(fragment, () => replacement),
  )
}
