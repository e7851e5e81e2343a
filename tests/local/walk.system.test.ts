import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { findFreePort } from '../../src/process/listen.ts'
import { INHERITED } from '../support/environment.ts'
import { newDataDir, npmStart } from '../support/npm-start.ts'

/** Covers the quick start, and everything that README.md says to paste after it. */

const PROJECT = resolve(import.meta.dirname, '../..')
const readme = await readFile(join(PROJECT, 'README.md'), 'utf8')
const dataDir = await newDataDir()
// PUBLIC_URL decides which origin can use the cookie, so the port must be known before the start.
const port = await findFreePort({ host: '127.0.0.1', port: 0 })
const { child, exit, output, untilReady } = npmStart(dataDir, ['npm', 'start'], { PORT: String(port) })

afterAll(stop)

async function stop(): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) process.kill(-(child.pid ?? 0), 'SIGTERM')
  await exit
}

test('the first screen of npm start is the welcome', async () => {
  await untilReady()
  expect(
    output()
      .replaceAll(/^> .*$/gm, '')
      .trim(),
  ).toMatch(/^gatehouse listens at http/)
})

test('the API calls of README.md and scripts/walk.sh succeed after npm start', async () => {
  await untilReady()
  const [exports = ''] = /^ *export BASE=.*$/m.exec(output()) ?? []
  const env = { ...INHERITED, HOME: process.env['HOME'], DATA_DIR: dataDir }
  const paste = async (text: string) =>
    (await promisify(execFile)('sh', ['-euc', `${exports}\n${text}`], { cwd: PROJECT, env })).stdout

  const [, section = ''] = readme.split('\n## Use the API\n')
  const [calls = ''] = section.split('\n## ')
  const blocks = [...calls.matchAll(/^```sh\n([\s\S]+?)^```/gm)].map(([, block]) => block)
  expect(blocks).toHaveLength(5)
  const said = await paste(blocks.join(''))
  const parts = [
    '"tokenType":"Bearer"',
    '\n{"session":{',
    '}\n{"accessToken":',
    '202 {"accepted":1,"duplicates":0}',
  ]
  for (const part of [...parts, '204\n{"type":"urn:gatehouse:problem:session_ended"'])
    expect(said).toContain(part)

  expect(await paste('scripts/walk.sh')).toMatch(/\nThe walk is complete\.\n$/)
})

test('admin restored refuses the embedded database, which nobody restored', async () => {
  await untilReady()
  const env = { ...INHERITED, HOME: process.env['HOME'], DATA_DIR: dataDir }
  const restored = promisify(execFile)('scripts/with-node', ['scripts/admin.ts', 'restored'], {
    cwd: PROJECT,
    env,
  })
  await expect(restored).rejects.toThrow('DATABASE_URL: must be set to the URL of the restored database.')
})

test('npm start logs a line of text for each request, without a warning, until it ends', async () => {
  await untilReady()
  await stop()
  const [, log = ''] = output().split(/\n\n(?=[^\n]* Operations listener at )/)
  for (const line of log.trim().split('\n')) expect(line).toMatch(/^\d\d:\d\d:\d\d (?!WARN|ERROR)\S/)
  expect(log).toMatch(/ GET \/api\/auth\/session 401 \d+ ms session_ended logout\n/)
})
