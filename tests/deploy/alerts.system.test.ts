import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { expect, test } from 'vitest'
import { createServerProcesses } from '../support/server-process.ts'
import { openTestService } from '../support/test-service.ts'

/** An alert rule that names a missing metric or route would never fire. */

const FILE = resolve(import.meta.dirname, '../../deploy/alerts.yaml')
const [, ...texts] = (await readFile(FILE, 'utf8')).split(/^ {6}- alert: /m)
const rules = texts.map((text) => ({
  name: text.split('\n', 1)[0] ?? '',
  expression: /^ {8}expr:((?:.*\n)(?: {9,}.*\n)*)/m.exec(text)?.[1]?.trim() ?? '',
}))

const WORDS = new Set(
  'sum min max by rate increase histogram_quantile min_over_time time absent and'.split(' '),
)
/** Names of metrics in an expression: its words without the language's own, labels, and durations. */
const metricsOf = (expression: string) =>
  (expression.replace(/\{[^}]*\}|\[\w+\]|by \([^)]*\)|^>-/g, ' ').match(/\b[a-z_]\w*/gi) ?? []).filter(
    (word) => !WORDS.has(word),
  )

const testService = await openTestService()
const processes = createServerProcesses(testService.url)

test('alert rules name metrics, routes, and outcomes that workers export', async () => {
  const service = await processes.start({ WORKERS: '2' })
  await (await request(`${service.address}/api/auth/session`)).body.dump()
  let text = ''
  // A worker that reports the request reports its own metrics too.
  while (!text.includes('route="/api/auth/session"')) {
    text = await (await request(`${service.ops}/metrics`)).body.text()
    await sleep(50)
  }
  const exported = new Set(
    [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', type]) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_count`, `${name}_sum`] : [name],
    ),
  )
  // Prometheus itself exports this one.
  exported.add('up')
  expect(rules.length).toBeGreaterThan(10)
  for (const { name, expression } of rules) {
    const metrics = metricsOf(expression)
    expect([name, metrics.length]).not.toEqual([name, 0])
    expect([name, metrics.filter((metric) => !exported.has(metric))]).toEqual([name, []])
    for (const [label] of expression.matchAll(/\b(?:route|end|role)="[^"]*"/g))
      expect([name, text.includes(label) && label]).toEqual([name, label])
  }
})

const { error } = spawnSync('promtool', ['--version'])
test.skipIf(error)('Prometheus accepts the alert rules', () => {
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'rules', FILE], { encoding: 'utf8' })
  expect([status, stderr]).toEqual([0, ''])
  expect(stdout).toContain(`${rules.length} rules found`)
})
