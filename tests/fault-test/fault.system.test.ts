import { expect, test } from 'vitest'
import { possibleFaults } from '../../scripts/fault-test/faults/list.ts'
import { openStage, type StageOptions } from '../../scripts/fault-test/run/open-stage.ts'
import { type RunOptions, runFaults } from '../../scripts/fault-test/run/run-faults.ts'
import { toText } from '../../scripts/fault-test/run/text.ts'
import { type Break, copyBroken } from './broken-copy.ts'

/** The fault test itself: the real thing, for a minute, and copies of it that break a promise. */

const OPTIONS: RunOptions = {
  seed: 'slow',
  seconds: 60,
  faults: possibleFaults(),
  isOverlapping: false,
  // More would show limits alone, which are not for a machine that does other work, too.
  crowd: 20,
  signal: new AbortController().signal,
  say: console.log,
}

const PAIR: StageOptions = {
  ...OPTIONS,
  isCluster: false,
  workers: 1,
  project: undefined,
  faultSeconds: undefined,
}

test('a minute of faults on instances of two workers breaks no promise (ASVS 16.5.3)', async () => {
  await using cleanup = new AsyncDisposableStack()
  const stage = await openStage({ ...PAIR, workers: 2 }, cleanup)
  const result = await runFaults(OPTIONS, stage, cleanup)
  console.log(toText(result))
  expect(result.violations).toEqual([])
  expect(result.outcomes['ok']).toBeGreaterThan(1_000)
  expect(result.faults.filter(({ backMs }) => backMs === null)).toEqual([])
})

interface Found extends Break {
  /** In the first words of a violation. */
  found: RegExp
}

const SPENT: Found = {
  file: 'src/session/rotation-fragments.ts',
  fragment: 'l.token_generation = l.generation`',
  replacement: 'l.token_generation >= l.generation - 1`',
  found: /^session .*POST \/auth\/refresh/,
}
const REPLACED_EVENT: Found = {
  file: 'src/ingest/repository.ts',
  fragment: `and not exists (select from events e where e.company_id = i.company_id and e.event_id = i.event_id)
      order by i.company_id, i.event_id
      \${ifTaken}`,
  replacement: `order by i.company_id, i.event_id
      on conflict (company_id, event_id) do update set data = excluded.data`,
  found: /^event /,
}
const COOKIE_TWICE: Found = {
  file: 'src/session/repository.ts',
  fragment: ` and s.cookie_hash = \${before}::bytea`,
  replacement: ` and \${before}::bytea is not null`,
  found: /^session .*POST \/auth\/reauthenticate/,
}
const LOGOUT_FOR_NOTHING: Found = {
  file: 'src/session/logout-repository.ts',
  fragment: 's.session_id = f.session_id and f.is_ended`',
  replacement: 's.session_id = f.session_id and f.is_ended and false`',
  found: /^session .*GET \/auth\/session: ok/,
}
const NO_RETRY: Found = {
  file: 'src/session/rotation-fragments.ts',
  fragment: `(\${isRetry(policy)} or`,
  replacement: `(\${isRetry(policy)} and false or`,
  found: /^session .*POST \/auth\/refresh: refused refresh_/,
}
const NOT_ON_DISK: Found = {
  file: 'src/database/settings.ts',
  fragment: "plan_cache_mode: 'force_generic_plan',",
  replacement: "plan_cache_mode: 'force_generic_plan', synchronous_commit: 'off',",
  found: /^(session|event|secret) /,
}

test.each<[name: string, breaks: Found[], fault: string]>([
  [
    'spent refresh tokens and cookies work again, and events are replaced',
    [SPENT, REPLACED_EVENT, COOKIE_TWICE],
    'latency',
  ],
  ['a logout ends nothing, and the retry of a refresh is refused', [LOGOUT_FOR_NOTHING, NO_RETRY], 'latency'],
  ['a commit is acknowledged before it is on disk', [NOT_ON_DISK], 'postgres-killed'],
])('the checker finds that %s', async (_, breaks, fault) => {
  await using cleanup = new AsyncDisposableStack()
  const project = await copyBroken(breaks, cleanup)
  // Clients come upon each by chance.
  const found: string[] = []
  for (let run = 1; run <= MOST_RUNS && breaks.some((one) => !isFound(one, found)); run += 1) {
    await using ended = new AsyncDisposableStack()
    const stage = await openStage({ ...PAIR, project }, ended)
    const options = { ...OPTIONS, seed: `slow ${run}`, seconds: 20, faults: [fault] }
    found.push(...(await runFaults(options, stage, ended)).violations.map(({ what }) => what))
  }
  for (const one of breaks) expect(found).toContainEqual(expect.stringMatching(one.found))
})

const MOST_RUNS = 4
const isFound = ({ found }: Found, whats: readonly string[]) => whats.some((what) => found.test(what))
