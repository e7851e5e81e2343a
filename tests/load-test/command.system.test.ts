import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { expect, inject, onTestFinished, test } from 'vitest'
import { launchBrowser } from '../../scripts/browser.ts'
import { INHERITED } from '../support/environment.ts'

const script = resolve(import.meta.dirname, '../../scripts/load-test.ts')

function start(args: string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [script, ...args], {
    env: { ...INHERITED, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exit = new Promise<number | null>((resolve) => child.on('exit', resolve))
  const ended = Promise.all([exit, text(child.stdout), text(child.stderr)]).then(
    ([code, stdout, stderr]) => ({
      code,
      stdout,
      stderr,
    }),
  )
  return { child, ended }
}

/** The titles of the plots that a browser draws, which can fetch nothing from elsewhere. */
async function plotsDrawnFrom(path: string): Promise<string[]> {
  const browser = await launchBrowser()
  try {
    const page = await browser.newPage({ locale: 'en' })
    const fetched: string[] = []
    const faults: Error[] = []
    page.on('request', (request) => fetched.push(request.url()))
    page.on('pageerror', (error) => faults.push(error))
    await page.goto(pathToFileURL(path).href)
    expect(faults).toEqual([])
    expect(fetched).toEqual([pathToFileURL(path).href])
    return await page.locator('figure:has(canvas) figcaption').allTextContents()
  } finally {
    await browser.close()
  }
}

const credentials = { COMPANY_ID: 'any', EMAIL: 'ada@acme.example', PASSWORD: 'any' }

/** Signs everyone in and answers session checks as it is told. */
async function startImpostor(check: (sessionId: string) => [status: number, body: object]): Promise<string> {
  let sessions = 0
  const server = createServer((request, response) => {
    const answer = ([status, body]: [number, object]) => response.writeHead(status).end(JSON.stringify(body))
    request.resume().on('end', () => {
      if (request.url === '/api/auth/login') {
        sessions += 1
        const id = `session-${sessions}`
        answer([
          200,
          { user: { email: credentials.EMAIL }, session: { id }, accessToken: id, refreshToken: id },
        ])
      } else answer(check(request.headers.authorization?.slice('Bearer '.length) ?? ''))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('it starts a service of its own, measures it against baselines and reports to people and programs', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-load-report-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const [json, html] = [join(folder, 'report.json'), join(folder, 'report.html')]
  const { ended } = start(
    [
      ...'--scenario refresh,ingest-batch --duration 1 --rounds 1 --connections 4 --sessions 500'.split(' '),
      ...`--json ${json} --html ${html} --fail-if refresh.p99<0 --fail-if refresh.rate>0`.split(' '),
    ],
    { DATABASE_URL: inject('serverUrl') },
  )
  const { code, stdout, stderr } = await ended
  expect(stderr).not.toContain('Error')
  // One of the two limits is missed, and nothing else is wrong.
  expect(stderr).toMatch(/^refresh\.rate>0: it is \d/m)
  expect(stderr).not.toContain('refresh.p99')
  expect(code).toBe(1)
  expect(stdout).toMatch(/refresh .* single-row updates/)

  const { figures, machine } = JSON.parse(await readFile(json, 'utf8'))
  expect(machine.cores).toBeGreaterThan(0)
  expect(figures).toMatchObject([
    { scenario: 'refresh', unit: 'requests', errors: {}, wrong: 0, baseline: { name: 'single-row updates' } },
    { scenario: 'ingest-batch', unit: 'events', errors: {}, wrong: 0 },
  ])
  for (const { succeeded, seconds, rate, baseline, latencyMs, unit } of figures) {
    expect(succeeded).toBeGreaterThan(0)
    expect(rate).toBeCloseTo((succeeded * (unit === 'events' ? 100 : 1)) / seconds)
    expect(baseline.ratio.min).toBeGreaterThan(0)
    expect(latencyMs.p95).toBeGreaterThanOrEqual(latencyMs.p50)
    expect(latencyMs.max).toBeGreaterThanOrEqual(latencyMs.p95)
  }

  const plots = await plotsDrawnFrom(html)
  expect(plots.filter((title) => title.startsWith('Latency in ms over time'))).toHaveLength(2)
  expect(plots).toHaveLength(6)
  expect(plots).toContainEqual(expect.stringContaining('Events a second over time'))
})

test.each<[string, [number, object], string]>([
  ['a 5xx', [503, { code: 'overloaded' }], '503 overloaded'],
  [
    'an answer about another session',
    [200, { session: { id: 'other' }, permissions: ['a'] }],
    'wrong answer',
  ],
])('%s fails the run, and is in the report', async (_what, answer, named) => {
  const url = await startImpostor(() => answer)
  const { ended } = start(
    `--url ${url} --scenario session --duration 0.5 --rounds 1 --connections 2`.split(' '),
    credentials,
  )
  const { code, stdout } = await ended
  expect(code).toBe(1)
  expect(stdout).toContain(named)
})

test('Ctrl-C ends the load and still reports what was measured', async () => {
  let generation = 0
  const url = await startImpostor((token) => {
    generation += 1
    const [id = ''] = token.split('.')
    return [200, { session: { id }, accessToken: id, refreshToken: `${id}.${generation}` }]
  })
  const { child, ended } = start(
    `--url ${url} --scenario refresh --duration 600 --rounds 1 --connections 2 --rate 50`.split(' '),
    credentials,
  )
  child.stderr.on('data', (line) => {
    if (String(line).includes('refresh 1/1')) child.kill('SIGINT')
  })
  const { code, stdout, stderr } = await ended
  expect(stderr).toMatch(/\nending/)
  expect(code).toBe(0)
  expect(stdout).toContain('Ended early')
  const [row = ''] = /^refresh .*$/m.exec(stdout) ?? []
  const [, connections, rate] = row.split(/ +/)
  expect(connections).toBe('2')
  expect(Number(rate)).toBeGreaterThan(0)
})

test.each([
  ['--scenario dance', 'there is no scenario dance'],
  ['--speed 3', "Unknown option '--speed'"],
  ['--duration nil', '--duration must be a number above 0, not nil'],
  ['--url http://127.0.0.1:9', 'set COMPANY_ID, EMAIL and PASSWORD'],
  ['--url 127.0.0.1:9', '--url must be'],
  ['--fail-if refresh.p99', '--fail-if takes <scenario>.<figure> and > or < a number'],
  ['--fail-if scale.p99>1', 'scale is not measured; login, session'],
  ['--fail-if refresh.p98>1', 'there is no figure p98; there are rate, p50'],
  ['--url http://127.0.0.1:9 --compare /nowhere', 'cannot be read'],
  ['--url http://127.0.0.1:9 --compare package.json', 'package.json is no report of the load test'],
])('%s is refused with a sentence', async (line, sentence) => {
  const { code, stderr } = await start(line.split(' '), {}).ended
  expect(code).toBe(1)
  expect(stderr).toContain(sentence)
  expect(stderr).not.toContain('    at ')
})
