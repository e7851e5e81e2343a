import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, existsSync, openSync } from 'node:fs'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { request } from 'undici'
import { expect, test } from 'vitest'
import { findServicePlaces } from '../../scripts/kit/places.ts'
import { openFolder } from '../support/cleanup.ts'
import { createServerProcesses, type Running, SERVER } from '../support/server-process.ts'
import { openTestService, times } from '../support/test-service.ts'

/** If the reader of the log stalls, log lines can be lost, but requests cannot. */

const testService = await openTestService()
const { start, launch } = createServerProcesses(testService.url)

const COMMAND = `${process.execPath} ${SERVER}`

type Service = Pick<Running, 'address' | 'ops'>

/** Sends concurrent requests, each with a log line. Returns how many got the expected response. */
async function sendRequests({ address }: Service, count: number): Promise<number> {
  let answered = 0
  const send = async () => {
    const { statusCode, body } = await request(`${address}/api/auth/session`)
    await body.dump()
    if (statusCode === 401) answered += 1
  }
  for (let sent = 0; sent < count; sent += 100) await Promise.all(times(100, send))
  return answered
}

async function ask(url: string): Promise<string> {
  const { statusCode, body } = await request(url, { headersTimeout: 5_000 })
  expect(statusCode).toBe(200)
  return await body.text()
}

async function linesLost({ ops }: Service): Promise<number> {
  const [, lost] = /^gatehouse_log_lines_lost_total (\d+)$/m.exec(await ask(`${ops}/metrics`)) ?? []
  return Number(lost)
}

/** Fills the pipe and the buffer of the process, at about 200 bytes a line. */
const MORE_THAN_FITS = 9_000

async function expectCalm(service: Service): Promise<void> {
  expect(await sendRequests(service, MORE_THAN_FITS)).toBe(MORE_THAN_FITS)
  expect(await ask(`${service.ops}/livez`)).toContain('"status":"ok"')
  expect(await linesLost(service)).toBeGreaterThan(500)
}

/** Resumes reading, and expects that no more lines are lost and that written lines are whole. */
async function expectFlow(service: Service, lines: () => string[]): Promise<void> {
  await expect
    .poll(async () => {
      const lost = await linesLost(service)
      await sendRequests(service, 100)
      return (await linesLost(service)) - lost
    })
    .toBe(0)
  const { headers } = await request(`${service.address}/api/auth/session`)
  await expect.poll(() => lines().join('')).toContain(String(headers['x-request-id']))
  for (const line of lines()) expect(JSON.parse(line)).toHaveProperty('time')
}

const linesOf = (text: string) => text.split(/\r?\n/).slice(0, -1)

async function startInto(file: number): Promise<Running> {
  const { env, address, ops, platform } = await findServicePlaces()
  const service = await launch(env, ['ignore', file, 'pipe'])
  closeSync(file)
  await expect.poll(() => ask(`${ops}/readyz`)).toBe('{"status":"ok"}')
  return { ...service, address, ops, platform }
}

test('an unread log pipe loses counted lines, but no request (ASVS 16.5.2)', async () => {
  const path = join(await openFolder(), 'log')
  await promisify(execFile)('mkfifo', [path])
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const service = await startInto(openSync(path, constants.O_WRONLY))
  expect(await linesLost(service)).toBe(0)
  await expectCalm(service)

  const chunks: string[] = []
  const log = new Socket({ fd: reader }).setEncoding('utf8').on('data', (text: string) => chunks.push(text))
  await expectFlow(service, () => linesOf(chunks.join('')))

  // A reader that stalls again does not delay the end of the process.
  log.pause()
  await sendRequests(service, MORE_THAN_FITS)
  service.child.kill('SIGTERM')
  expect(await service.exit).toEqual([0, null])
  log.destroy()
})

const onLinux = test.runIf(process.platform === 'linux')
onLinux('a paused terminal loses lines, but no request (ASVS 16.5.2)', async () => {
  // script(1) provides a terminal, and stalls while its own output is not read.
  const service = await start({}, ['ignore', 'pipe', 'pipe'], ['script', '-qefc', COMMAND, '/dev/null'])
  service.child.stdout?.pause()
  await expectCalm(service)
  service.child.stdout?.resume()
  await expectFlow(service, () => linesOf(service.output()))
})

/** Requests must get responses without a log, and the process must end. */
async function expectCalmEnd({ child, exit, ...service }: Running): Promise<void> {
  expect(await sendRequests(service, 500)).toBe(500)
  await expect.poll(() => linesLost(service)).toBeGreaterThan(0)
  child.kill('SIGTERM')
  expect(await exit).toEqual([0, null])
}

test('a closed log reader loses lines, but no request', async () => {
  const service = await start()
  service.child.stdout?.destroy()
  await expectCalmEnd(service)
})

test.skipIf(!existsSync('/dev/full'))('a full log loses lines, but no request (ASVS 16.5.2)', async () => {
  await expectCalmEnd(await startInto(openSync('/dev/full', 'w')))
})

test('the last log lines before an ordinary end are written', async () => {
  const service = await start()
  await sendRequests(service, 200)
  service.child.kill('SIGTERM')
  await once(service.child, 'close')
  const lines = service.output().trim().split('\n')
  expect(lines.filter((line) => line.includes('"route":"/api/auth/session"')).length).toBe(200)
  expect(lines.at(-1)).toMatch(/"msg":"draining"/)
})
