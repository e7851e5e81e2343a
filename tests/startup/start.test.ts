import { execFile } from 'node:child_process'
import { chmod, cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'

const run = promisify(execFile)
const script = resolve(import.meta.dirname, '../../scripts/start')

/** Runs a copy of the start script where `node` is a program that says only its version and what it is given. */
async function startWith(version: string | null, env: Record<string, string> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-start-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const [bin, copy] = [join(folder, 'bin'), join(folder, 'scripts/start')]
  await mkdir(bin)
  await cp(script, copy, { recursive: true })
  if (version !== null) {
    const node = `#!/bin/sh\n[ "$1" = --version ] && echo ${version} && exit\necho "$UV_THREADPOOL_SIZE $*"\n`
    await writeFile(join(bin, 'node'), node)
    await chmod(join(bin, 'node'), 0o755)
  }
  // The tools that the script uses, but no Node.
  const PATH = `${bin}:/usr/bin:/bin`
  return await run('/bin/sh', [copy, '--extra'], { env: { PATH, ...env } })
}

test.for(['v20.20.2', 'v22.18.9', 'v9.9.9'])('Node %s is refused with what to do', async (version) => {
  await expect(startWith(version)).rejects.toMatchObject({ code: 1, stderr: /npm ci.*Node 22\.19 or newer/s })
})

test.for(['v22.19.0', 'v22.20.1', 'v24.0.0', 'v26.10.0'])(
  'Node %s runs the service, with more threads than the machine has cores',
  async (version) => {
    const { stdout } = await startWith(version)
    const [, threads, rest] = /^(\d+) (.*)\n$/.exec(stdout) ?? []
    expect(Number(threads)).toBeGreaterThan(2)
    expect(rest).toMatch(/^--max-old-space-size=\d+ .*src\/server\.ts --extra$/)
  },
)

test('threads that the environment names stay', async () => {
  expect((await startWith('v26.10.0', { UV_THREADPOOL_SIZE: '7' })).stdout).toMatch(/^7 /)
})
