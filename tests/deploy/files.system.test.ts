import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { VARIABLES } from '../../src/config/config.ts'
import { openFolder } from '../support/cleanup.ts'

/** Files of deploy/ that no other test starts. */

const PROJECT = resolve(import.meta.dirname, '../..')
const read = (name: string) => readFile(join(PROJECT, 'deploy', name), 'utf8')

const unit = await read('gatehouse.service')

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

test('the proxy has no listener without TLS, and redirects nothing (ASVS 4.1.2, 12.2.1)', async () => {
  const proxy = await read('haproxy.cfg')
  expect(proxy.match(/\bbind (?!"\$\{(?:PUBLIC|PLATFORM)_BIND\[\*\]\}"$).*/gm)).toBeNull()
  expect(proxy.match(/^ {2}presetenv \w+_BIND ".* ssl crt \S+ alpn h2,http\/1\.1"$/gm)).toHaveLength(2)
  expect(proxy).not.toMatch(/\bredirect\b/)
})

const { error } = spawnSync('systemd-analyze', ['--version'])
test.skipIf(error)('systemd knows every word of the unit and its drop-in', async () => {
  const folder = await openFolder()
  await mkdir(join(folder, 'gatehouse.service.d'))
  await writeFile(join(folder, 'gatehouse.service'), unit)
  await writeFile(join(folder, 'gatehouse.service.d/network.conf'), await read('network.conf'))
  const { stderr } = spawnSync('systemd-analyze', ['verify', join(folder, 'gatehouse.service')])
  // The release is unpacked in a different place here.
  expect(String(stderr)).not.toMatch(/^(?!.*\/opt\/gatehouse\/scripts\/start).+$/m)
})

const image = (await read('Containerfile')).split('\n')
const pathsIn = (pattern: RegExp) => image.flatMap((line) => pattern.exec(line)?.[1]?.split(' ') ?? [])

test('the image copies only existing files, and all that the service needs', () => {
  expect(pathsIn(/^COPY (?!--from)(.+) \S+$/).filter((path) => !existsSync(join(PROJECT, path)))).toEqual([])
  const served = pathsIn(/^COPY --from=build (.+) \S+$/).map((path) => path.replace('/opt/gatehouse/', ''))
  const needed = 'CHANGELOG.md dist migrations node_modules package.json scripts src tsconfig.json'
  expect(served.sort().join(' ')).toBe(needed)
})

test('unit and image run unprivileged in production, with time to drain (ASVS 15.2.5)', () => {
  const last = image.slice(image.findLastIndex((line) => line.startsWith('FROM')))
  expect(last).toEqual(expect.arrayContaining(['USER node', 'STOPSIGNAL SIGTERM']))
  for (const file of [unit, last.join('\n')]) expect(file).toContain('NODE_ENV=production')
  // Longer than the 15 s that a process takes in production.
  expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])).toBeGreaterThan(15)
})
