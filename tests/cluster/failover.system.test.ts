import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { postgresOf } from '../../scripts/cluster/machine.ts'
import { MACHINES } from '../../scripts/cluster/network.ts'
import { CLUSTER_FAULTS } from '../../scripts/fault-test/faults/cluster-list.ts'
import { choose } from '../../scripts/fault-test/faults/fault.ts'
import { toText } from '../../scripts/fault-test/run/report.ts'
import { runFaults } from '../../scripts/fault-test/run/run-faults.ts'
import { openClusterTarget } from '../../scripts/fault-test/target/cluster-target.ts'
import { connect, ping } from '../../src/database/connect.ts'
import { isUnavailable, StandbyError } from '../../src/database/faults.ts'

/** Runs production on one machine, from the files of deploy/. Needs root and Debian packages (see .ci/run). */

const execute = promisify(execFile)

/** Everything that a cluster creates outside its folder. */
async function traces(): Promise<string[]> {
  const [links, namespaces, files] = await Promise.all([
    execute('ip', ['-brief', 'link']),
    execute('ip', ['netns', 'list']),
    readdir(tmpdir()),
  ])
  const all = [...links.stdout.split('\n'), ...namespaces.stdout.split('\n'), ...files]
  return all.filter((name) => /^gatehouse(-\d|-cluster|\s)/.test(name))
}

test('a killed database machine loses no acknowledged change, and cleanup is complete', async () => {
  {
    await using cleanup = new AsyncDisposableStack()
    const { signal } = new AbortController()
    const target = await openClusterTarget({ say: console.log, signal }, cleanup)
    const { cluster } = target
    expect(await traces()).not.toEqual([])

    // A standby can show sessions that have already ended.
    const primary = await cluster.database.primary()
    for (const n of MACHINES) {
      const url = Object.assign(new URL(cluster.operator.DATABASE_URL), { host: postgresOf(n) }).href
      const { db, close } = connect({ url, poolSize: 1 })
      const fault: unknown = await ping(db).then(
        () => null,
        (error: unknown) => error,
      )
      await close()
      const standby = expect.objectContaining({ cause: expect.any(StandbyError) })
      expect([n, fault]).toEqual([n, n === primary ? null : standby])
      expect(isUnavailable(fault)).toBe(n !== primary)
    }

    // Longer than the 20 s after which the machine is replaced.
    const lasting = { least: 30_000, more: 1 }
    const options = { seed: 'slow', seconds: 1, lasting, say: console.log, signal }
    const faults = choose(CLUSTER_FAULTS, ['machine-killed'])
    const result = await runFaults(target, faults, options, cleanup)
    console.log(toText(result))
    expect(result.violations).toEqual([])
    expect(result.outcomes['ok']).toBeGreaterThan(1_000)
    expect(result.outcomes['503']).toBeGreaterThan(0)
    expect(await cluster.database.primary()).not.toBe(primary)
  }
  expect(await traces()).toEqual([])
})
