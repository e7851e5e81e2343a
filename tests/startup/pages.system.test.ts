import { execFile } from 'node:child_process'
import { appendFile, cp, readdir, symlink } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openFolder } from '../support/cleanup.ts'
import { INHERITED } from '../support/environment.ts'
import { createServerProcesses } from '../support/server-process.ts'
import { openTestService } from '../support/test-service.ts'

/** The service serves pages built from its own sources, or none. */

const project = resolve(import.meta.dirname, '../..')
const { url } = await openTestService()
const processes = createServerProcesses(url)

/** The project's files without built pages. */
async function checkOut({ isInstalled = true } = {}): Promise<string> {
  const folder = await openFolder()
  for (const part of ['src', 'scripts', 'package.json', 'tsconfig.json', 'CHANGELOG.md'])
    await cp(join(project, part), join(folder, part), { recursive: true })
  for (const part of isInstalled ? ['migrations', 'node_modules'] : [])
    await symlink(join(project, part), join(folder, part))
  return folder
}

const build = (folder: string, ...args: string[]) =>
  promisify(execFile)(process.execPath, [join(folder, 'scripts/build.ts'), ...args], { env: INHERITED })
const launch = (folder: string, env: Record<string, string> = {}) =>
  processes.launch(env, undefined, [process.execPath, join(folder, 'src/process/server.ts')])

async function expectNotBuilt(folder: string) {
  const { exit, output } = await launch(folder)
  expect((await exit)[0]).toBe(1)
  expect(output()).toMatch(
    /^The pages are not built\. Run `npm ci --include=dev && npm run build`, or set PAGES_URL .*\n$/,
  )
}

test('a start without built pages fails, unless a different server has them', async () => {
  const folder = await checkOut()
  await expectNotBuilt(folder)
  const elsewhere = await launch(folder, { PAGES_URL: 'https://app.example.com' })
  const address = await elsewhere.told(/"Server listening at (http[^"]+)"/)
  expect((await fetch(`${address}/sign-in`, { headers: { accept: 'text/html' } })).status).toBe(404)
})

test('concurrent builds keep one whole build, which fits only its sources', async () => {
  const folder = await checkOut()
  await Promise.all([build(folder), build(folder, '--before-start')])
  const dist = join(folder, 'dist')
  const [first = '', ...more] = await readdir(dist)
  expect(more).toEqual([])
  const files = await readdir(join(dist, first), { recursive: true })
  expect(files.filter((name) => /\.(?:br|gz)$/.test(name)).sort()).toEqual(
    files
      .filter((name) => /\.(?:html|js|css|txt)$/.test(name))
      .flatMap((name) => [`${name}.br`, `${name}.gz`])
      .sort(),
  )
  expect(files).toEqual(expect.arrayContaining(['index.html', 'docs/index.html', 'docs/llms.txt']))
  // Nothing is left to build.
  expect(await build(folder, '--before-start')).toEqual({ stdout: '', stderr: '' })

  await appendFile(join(folder, 'src/pages/styles/base.css'), 'p { margin: 0 }')
  await expectNotBuilt(folder)
  await build(folder)
  expect(await readdir(dist)).toHaveLength(2)
  expect(await readdir(join(dist, first), { recursive: true })).toEqual(files)
})

test('a build without development packages explains what to install', async () => {
  const folder = await checkOut({ isInstalled: false })
  await expect(build(folder)).rejects.toMatchObject({
    code: 1,
    stderr: 'The pages were not built: run `npm ci --include=dev` first.\n',
  })
  expect(await build(folder, '--before-start')).toEqual({ stdout: '', stderr: '' })
})
