import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { postgresOf } from '../../scripts/cluster/machine.ts'
import { MACHINES } from '../../scripts/cluster/network.ts'
import { openCluster } from '../../scripts/cluster/open-cluster.ts'
import { FAULTS } from '../../scripts/cluster/trial/faults.ts'
import { runTrial } from '../../scripts/cluster/trial/run-trial.ts'
import { connect, ping } from '../../src/database/connect.ts'
import { isUnavailable, StandbyError } from '../../src/database/faults.ts'

/** Production on one computer, from the files of deploy/: it needs root and Debian's packages, see .ci/run. */

const script = resolve(import.meta.dirname, '../../scripts/cluster.ts')
const execute = promisify(execFile)

async function run(...args: string[]) {
  const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  const output = Promise.all([text(child.stdout), text(child.stderr)])
  const [code] = await once(child, 'exit')
  const [stdout, stderr] = await output
  return { code, stdout, stderr }
}

/** What a cluster makes outside of its own folder. */
async function traces(): Promise<string[]> {
  const [links, namespaces, files] = await Promise.all([
    execute('ip', ['-brief', 'link']),
    execute('ip', ['netns', 'list']),
    readdir(tmpdir()),
  ])
  const all = [...links.stdout.split('\n'), ...namespaces.stdout.split('\n'), ...files]
  return all.filter((name) => /^gatehouse(-\d|-cluster|\s)/.test(name))
}

test('a machine of the database is killed: nothing acknowledged is lost or undone, and nothing stays', async () => {
  {
    await using cleanup = new AsyncDisposableStack()
    const { signal } = new AbortController()
    const cluster = await openCluster({ say: console.log, signal }, cleanup)
    await cluster.healthy()
    expect(await traces()).not.toEqual([])

    // What a standby shows can have ended since.
    const primary = await cluster.database.primary()
    for (const n of MACHINES) {
      const url = Object.assign(new URL(cluster.operator.DATABASE_URL), { host: postgresOf(n) }).href
      const { db, close } = connect({ url, poolSize: 1 })
      const fault: unknown = await ping(db).then(
        () => null,
        (error: unknown) => error,
      )
      await close()
      expect([n, fault]).toEqual([n, n === primary ? null : expect.any(StandbyError)])
      expect(isUnavailable(fault)).toBe(n !== primary)
    }

    const fault = FAULTS['machine-killed']
    if (!fault) throw new Error('there is no such fault')
    const { violations, acknowledged, failed } = await runTrial(cluster, 'machine-killed', fault)
    expect(violations).toEqual([])
    expect(acknowledged).toBeGreaterThan(100)
    expect(failed['503']).toBeGreaterThan(0)
  }
  expect(await traces()).toEqual([])
})

test('what does not exist is refused with a sentence', async () => {
  expect(await run('try', 'earthquake')).toMatchObject({ code: 1, stderr: 'There is no fault earthquake.\n' })
  expect(await run('explode')).toMatchObject({ code: 1, stderr: 'There is no `explode`.\n' })
  const away = await run('status')
  expect(away).toMatchObject({ code: 1, stderr: 'No cluster runs. Start one with `npm run cluster`.\n' })
})
