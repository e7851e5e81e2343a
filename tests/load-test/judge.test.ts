import { expect, test } from 'vitest'
import { compare, type EarlierReport } from '../../scripts/load-test/judge/comparison.ts'
import { findMissed, parseThreshold } from '../../scripts/load-test/judge/thresholds.ts'
import type { Figures } from '../../scripts/load-test/measure/figures.ts'
import { comparisonText } from '../../scripts/load-test/report/comparison.ts'
import { latencyOverTimePlot, ratePlot } from '../../scripts/load-test/report/plots.ts'

function figuresOf(values: Partial<Figures> = {}): Figures {
  return {
    scenario: 'refresh',
    about: '',
    connections: 64,
    targetRate: null,
    rounds: 3,
    seconds: 3,
    unit: 'requests',
    eventsPerRequest: 1,
    rate: 1100,
    roundRates: [1050, 1100, 1150],
    latencyMs: { p50: 10, p90: 15, p95: 20, p99: 99, p999: 150, max: 200 },
    succeeded: 3300,
    errors: { '429 rate_limited': 2 },
    wrong: 0,
    cpuMs: { service: 0.2, postgres: null },
    written: null,
    memoryMb: [100, 120],
    baseline: null,
    cost: null,
    notes: [],
    percentiles: [],
    series: [],
    ...values,
  }
}

const missed = (limit: string, figures = [figuresOf()]) =>
  findMissed([parseThreshold(limit, ['refresh', 'login'])], figures)

test.each([
  ['refresh.p99>100', []],
  ['refresh.p99>98.5', ['refresh.p99>98.5: it is 99']],
  ['refresh.p95 > 19', ['refresh.p95 > 19: it is 20']],
  ['refresh.rate<1100', []],
  ['refresh.rate<2000', ['refresh.rate<2000: it is 1100']],
  ['refresh.errors>0', ['refresh.errors>0: it is 2']],
  ['refresh.memory>110', ['refresh.memory>110: it is 120']],
])('%s is judged', (limit, lines) => {
  expect(missed(limit)).toEqual(lines)
})

test('what was not measured is missed, so that nothing passes by being absent', () => {
  expect(missed('refresh.ratio<0.5')).toEqual(['refresh.ratio<0.5: refresh has no ratio here'])
  expect(missed('login.p99>1')).toEqual(['login.p99>1: login was not measured'])
  expect(missed('refresh.p99>100', [figuresOf({ succeeded: 0 })])).toEqual([
    'refresh.p99>100: refresh was not measured',
  ])
})

function earlier(values: Partial<Figures> = {}): EarlierReport {
  return { at: '2026-01-01T00:00:00.000Z', figures: [figuresOf(values)] }
}

test('a change is the share by which a figure differs, beside the noise of the rounds', () => {
  const before = earlier({ rate: 1000, roundRates: [980, 1020], cpuMs: { service: 0.1, postgres: null } })
  const [change] = compare([figuresOf()], before)
  expect(change?.rate).toBeCloseTo(0.1)
  expect(change?.p99).toBe(0)
  expect(change?.cpu).toBeCloseTo(1)
  expect(change?.noise).toBeCloseTo(100 / 1100)
  const text = comparisonText(compare([figuresOf()], before), before.at)
  expect(text).toMatch(/refresh +\+10\.0 % .* 9 % +faster/)
})

test('a change that is smaller than the noise is called so', () => {
  const before = earlier({ rate: 1190 })
  expect(comparisonText(compare([figuresOf()], before), before.at)).toMatch(/−7\.6 % .*within the noise/)
})

test('what an earlier report does not have is left out', () => {
  const { roundRates: _, ...old } = figuresOf({ rate: 1000 })
  const { p95: __, ...latencyMs } = old.latencyMs
  const report = { at: 'then', figures: [{ ...old, latencyMs }] }
  expect(compare([figuresOf()], report)).toMatchObject([{ p95: null, p50: 0 }])
  expect(compare([figuresOf({ scenario: 'login' })], report)).toEqual([])
  expect(comparisonText([], 'then')).toBe('The report of then has none of these scenarios.')
})

test('another load is named', () => {
  const text = (values: Partial<Figures>) => comparisonText(compare([figuresOf()], earlier(values)), 'then')
  expect(text({ connections: 8 })).toContain('8 connections before, 64 now')
  expect(text({ targetRate: 500 })).toContain('500/s before, a closed loop now')
})

test('the plots over time are of events where a request carries several, and of latencies', () => {
  const series = [
    { at: 1, rate: 10, p50: 5, p99: 50, errors: 0 },
    { at: 2, rate: 0, p50: 0, p99: 0, errors: 1 },
    { at: 3, rate: 20, p50: 6, p99: 60, errors: 0 },
  ]
  const figures = figuresOf({ series, unit: 'events', eventsPerRequest: 100 })
  expect(ratePlot(figures)).toMatchObject({
    title: 'Events a second over time',
    columns: [
      [1, 2, 3],
      [1000, 0, 2000],
      [0, 100, 0],
    ],
  })
  // A second without an answer has no latency.
  expect(latencyOverTimePlot(figures).columns).toEqual([
    [1, 2, 3],
    [5, null, 6],
    [50, null, 60],
  ])
})
