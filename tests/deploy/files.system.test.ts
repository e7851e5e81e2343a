import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { VARIABLES } from '../../src/config.ts'

/** Files of deploy/ that nothing else here starts. */

const PROJECT = resolve(import.meta.dirname, '../..')
const read = (name: string) => readFile(join(PROJECT, 'deploy', name), 'utf8')

describe('the systemd unit', async () => {
  const unit = await read('gatehouse.service')

  test('the unit starts the release in production, and leaves it time to drain', () => {
    expect(unit).toMatch(/^Environment=NODE_ENV=production$/m)
    expect(unit).toMatch(/^ExecStart=\/opt\/gatehouse\/scripts\/start$/m)
    // More than the 15 s that a process takes in production.
    expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])).toBeGreaterThan(15)
  })

  test('the unit passes secrets as credentials, in files that the service reads (ASVS 13.3.1, 13.3.2)', () => {
    const credentials = [...unit.matchAll(/^LoadCredential=([a-z-]+):\/etc\/gatehouse\/([a-z-]+)$/gm)]
    const [, files = ''] = /^Environment=(.*_FILE=.*)$/m.exec(unit) ?? []
    expect(credentials.map(([, id]) => id)).toEqual(['database-url', 'master-keys', 'smtp-url'])
    expect(credentials.map(([, id, file]) => [id, file])).toEqual(credentials.map(([, id]) => [id, id]))
    expect(files.split(' ')).toEqual(
      credentials.map(([, id = '']) => `${id.replace('-', '_').toUpperCase()}_FILE=%d/${id}`),
    )
    for (const name of files.matchAll(/(\w+)=/g)) expect(VARIABLES).toContain(name[1])
  })

  test('the unit denies every address that is not listed (ASVS 13.2.4, 13.2.5)', async () => {
    expect(unit.match(/^IPAddress.*$/gm)).toEqual(['IPAddressDeny=any', 'IPAddressAllow=localhost'])
    const network = await read('network.conf')
    expect(network).not.toMatch(/^(?!#|\[Service\]$|IPAddressAllow=[\da-f.:/]+$).+$/m)
  })

  const { error } = spawnSync('systemd-analyze', ['--version'])
  test.skipIf(error)('systemd knows every word of the unit and its drop-in', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'gatehouse-unit-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    await mkdir(join(folder, 'gatehouse.service.d'))
    await writeFile(join(folder, 'gatehouse.service'), unit)
    await writeFile(join(folder, 'gatehouse.service.d/network.conf'), await read('network.conf'))
    const verify = spawnSync('systemd-analyze', ['verify', join(folder, 'gatehouse.service')], {
      encoding: 'utf8',
    })
    // It is unpacked elsewhere.
    const faults = verify.stderr
      .split('\n')
      .filter((line) => line && !line.includes('/opt/gatehouse/scripts/start'))
    expect(faults).toEqual([])
  })
})

describe('the image', async () => {
  const lines = (await read('Containerfile')).split('\n')

  test('the image copies existing files, which are all that the service needs', () => {
    const copied = lines.flatMap((line) => /^COPY (?!--from)(.+) \S+$/.exec(line)?.[1]?.split(' ') ?? [])
    expect(copied.filter((path) => !existsSync(join(PROJECT, path)))).toEqual([])
    const served = lines.flatMap((line) => /^COPY --from=build (.+) \S+$/.exec(line)?.[1]?.split(' ') ?? [])
    expect(served.map((path) => path.replace('/opt/gatehouse/', '')).sort()).toEqual(
      ['dist', 'migrations', 'node_modules', 'package.json', 'scripts', 'src', 'tsconfig.json'].sort(),
    )
  })

  test('the image runs without privileges, and stops on SIGTERM', () => {
    const last = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM')))
    expect(last).toContain('USER node')
    expect(last).toContain('STOPSIGNAL SIGTERM')
    expect(last.join('\n')).toContain('NODE_ENV=production')
  })
})
