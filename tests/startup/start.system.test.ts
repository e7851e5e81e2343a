import { execFile } from 'node:child_process'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { openFolder } from '../support/cleanup.ts'

const run = promisify(execFile)
const scripts = resolve(import.meta.dirname, '../../scripts')

/** Runs copies of the shell scripts. Their `node` prints only its version and its arguments. */
async function runWith(version: string, args: string[], env: Record<string, string> = {}) {
  const folder = await openFolder()
  const bin = join(folder, 'bin')
  await mkdir(bin)
  for (const name of ['start', 'with-node']) await cp(join(scripts, name), join(folder, 'scripts', name))
  const node = `#!/bin/sh\n[ "$1" = --version ] && echo ${version} && exit\necho "$UV_THREADPOOL_SIZE $*"\n`
  await writeFile(join(bin, 'node'), node, { mode: 0o755 })
  // Has the tools that the script uses, but no Node.
  const PATH = `${bin}:/usr/bin:/bin`
  return await run('/bin/sh', args, { cwd: folder, env: { PATH, ...env } })
}

const startWith = (version: string, env?: Record<string, string>) =>
  runWith(version, ['scripts/start', '--extra'], env)

test.for(['v9.9.9', 'v22.23.1', 'v23.11.1', 'v26.5.0', 'v24.18.0-rc.1'])(
  'Node %s is refused with an explanation (ASVS 15.2.1)',
  async (version) => {
    const [line22, line24, line26] = manifest.engines.node.match(/\d+\.\d+\.\d+/g) ?? []
    const refusal = {
      code: 1,
      stdout: '',
      stderr:
        `Node ${version} is not supported. Install Node ${line22}, ${line24}, or ${line26}, or a newer release of one ` +
        'of these lines. For development, `npm ci` installs one in the project.\n',
    }
    await expect(startWith(version)).rejects.toMatchObject(refusal)
    await expect(runWith(version, ['scripts/with-node', 'a.ts'])).rejects.toMatchObject(refusal)
  },
)

test('every TypeScript command of package.json refuses an unsupported Node', () => {
  const withNode = Object.entries(manifest.scripts).filter(([, command]) => /\.ts\b|scripts\//.test(command))
  expect(withNode.map(([name]) => name)).toEqual(expect.arrayContaining(['start', 'admin', 'send-event']))
  for (const [, command] of withNode) expect(command).toMatch(/^exec scripts\/(start$|with-node )/)
})

test.for(['v22.23.2', 'v24.18.1', 'v26.10.0', 'v28.0.0'])(
  'Node %s builds the pages and runs the service with enough threads',
  async (version) => {
    const { stdout } = await startWith(version)
    const [, threads, rest] = /^\d+ scripts\/build\.ts --before-start\n(\d+) (.*)\n$/.exec(stdout) ?? []
    expect(Number(threads)).toBeGreaterThan(2)
    expect(rest).toMatch(/^--max-old-space-size=\d+ .*src\/process\/server\.ts --extra$/)
    expect((await startWith(version, { UV_THREADPOOL_SIZE: '7' })).stdout).toMatch(/^7 /)
  },
)
