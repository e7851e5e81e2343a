import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkOut, findCommit, LAST_RELEASE } from '../../scripts/kit/checkout.ts'
import { createDatabase, openConnection, openPostgres } from '../../scripts/kit/postgres.ts'
import { register, signIn } from './members.ts'
import { namesOf } from './names.ts'
import { startSide } from './side.ts'
import { WORK } from './work.ts'

/**
 * Runs the service of an earlier commit and of this checkout on one database, as during an upgrade. The commit is
 * UPGRADE_FROM, or the last release. Work started at one side continues at the other.
 */

const asked = process.env['UPGRADE_FROM']
const commit = await findCommit(asked ?? LAST_RELEASE)
if (asked && !commit) throw new Error(`This repository has no commit ${asked}.`)

/** Names that this release removes, and why. CHANGELOG.md has each under **Breaking**. Empty it with each release. */
const REMOVED = {
  'metric gatehouse_connections_max': 'HAProxy bounds connections',
  'metric gatehouse_requests_shed_total': 'HAProxy refuses these requests',
  '/auth/members post application/json role = admin': 'a service account was never an admin',
}

/** Includes the installation of the earlier release's packages, if its lock file differs. */
const INSTALLATION_MS = 1_800_000

// A shallow clone lacks the last release. `git fetch --unshallow` gets it.
describe.skipIf(!commit)('with an earlier release', () => {
  const cleanup = new AsyncDisposableStack()
  afterAll(() => cleanup.disposeAsync())
  let sides: Awaited<ReturnType<typeof openSides>>
  beforeAll(async () => {
    sides = await openSides(commit ?? '', cleanup)
  }, INSTALLATION_MS)

  describe.each(Object.entries(WORK))('%s', (_, work) => {
    test('work started at the earlier release continues at this one', () =>
      work(sides.old, sides.present, sides.world))
    test('work started at this release continues at the earlier one', () =>
      work(sides.present, sides.old, sides.world))
  })

  test('every route, field, value, metric, and log key still exists', async () => {
    const { old, present, world } = sides
    const [earlier, current] = [await namesOf(old, world.admin), await namesOf(present, world.admin)]
    expect(earlier.size).toBeGreaterThan(10_000)
    const gone = [...earlier].filter((name) => !current.has(name) && !(name in REMOVED))
    expect(gone).toEqual([])
  })

  test('the earlier release starts on the new tables', async () => {
    const { present, late, world } = sides
    await present.ask('GET /auth/session', { by: await signIn(await late(), world.admin) })
  })
})

async function openSides(commit: string, cleanup: AsyncDisposableStack) {
  const postgres = await openPostgres(cleanup)
  const { folder } = postgres
  const checkout = await checkOut(commit, folder)
  const databaseUrl = await createDatabase(postgres, cleanup)
  const connection = await openConnection(databaseUrl)
  cleanup.defer(() => connection.end())
  const variables = {
    MASTER_KEYS: `upgrade:${randomBytes(32).toString('base64')}`,
    PUBLIC_URL: 'http://upgrade.example',
    // All requests come from one network.
    RATE_LIMIT_SCALE: '1000',
  }
  const deployment = { databaseUrl, folder, variables }
  const name = commit.slice(0, 7)
  // It has statements and rows before the present release migrates its tables.
  const old = await startSide(name, checkout, deployment, cleanup)
  const world = { connection, admin: await register(old, old, old) }
  const present = await startSide('present', undefined, deployment, cleanup)
  const late = () => startSide(`${name}-late`, checkout, deployment, cleanup)
  return { old, present, late, world }
}
