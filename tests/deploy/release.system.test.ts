import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdir, readFile, symlink } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { request } from 'undici'
import { expect, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { openFolder } from '../support/cleanup.ts'
import { createEmptyDatabase } from '../support/empty-database.ts'
import { createServerProcesses } from '../support/server-process.ts'

/** The archive of a release, created and started as operators do. */

const PROJECT = resolve(import.meta.dirname, '../..')
const execute = promisify(execFile)
const { start } = createServerProcesses(await createEmptyDatabase())

test('an unpacked release starts with only production dependencies, and serves its pages (ASVS 15.1.2, 15.2.3)', async () => {
  const folder = await openFolder()
  const clone = join(folder, 'clone')
  await execute('git', ['clone', '--quiet', PROJECT, clone])
  await symlink(join(PROJECT, 'node_modules'), join(clone, 'node_modules'))
  const makeRelease = () => execute(process.execPath, ['scripts/release.ts'], { cwd: clone })
  const { stdout } = await makeRelease()
  const name = `dist/gatehouse-${manifest.version}`
  expect(stdout.replace(/^[0-9a-f]{64} {2}/gm, '')).toBe(`${name}.tar.gz\n${name}.cdx.json\n`)
  // The same commit results in the same bytes.
  expect((await makeRelease()).stdout).toBe(stdout)

  await execute('tar', ['-xzf', join(clone, `${name}.tar.gz`), '-C', folder])
  const unpacked = join(folder, `gatehouse-${manifest.version}`)
  expect(await readdir(unpacked)).not.toContain('tests')
  // No test programs, and no examples.
  const programs = (await readdir(join(unpacked, 'scripts'))).join(' ')
  expect(programs).toBe('admin admin.ts build.ts docs.ts start with-node')
  // Packages that run, and those that the pages are built from.
  const bom = JSON.parse(await readFile(join(clone, `${name}.cdx.json`), 'utf8'))
  const purl = `pkg:npm/gatehouse@${manifest.version}`
  expect(bom).toMatchObject({ bomFormat: 'CycloneDX', metadata: { component: { purl } } })
  const packages = bom.components.map((each: { purl: string }) => decodeURIComponent(each.purl))
  const shipped = Object.entries({ ...manifest.dependencies, preact: manifest.devDependencies.preact })
  const purls = shipped.map(([each, version]) => `pkg:npm/${each}@${version}`)
  expect(packages).toEqual(expect.arrayContaining(purls))
  expect(packages.join()).not.toMatch(/vitest|biome|esbuild|playwright/)
  await execute('npm', ['ci', '--omit=dev', '--no-audit', '--no-fund'], { cwd: unpacked })
  const service = await start(
    {
      // Operators provide this release of Node.
      PATH: `${dirname(process.execPath)}:${process.env['PATH']}`,
      NODE_ENV: 'production',
      MASTER_KEYS: `release:${randomBytes(32).toString('base64')}`,
      PUBLIC_URL: 'https://auth.example.com',
      SMTP_URL: 'smtp://smtp.example.com:587',
      RATE_LIMIT_SCALE: '1',
      WORKERS: '1',
    },
    undefined,
    [join(unpacked, 'scripts/start')],
  )
  const lives = await request(`${service.ops}/livez`)
  expect(await lives.body.json()).toMatchObject({ version: manifest.version })
  const page = await request(service.address, { headers: { host: 'auth.example.com' } })
  expect([page.statusCode, await page.body.text()]).toEqual([200, expect.stringContaining('<!doctype html>')])
})
