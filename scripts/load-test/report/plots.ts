import type { Second } from '../drive/measurement.ts'
import type { Figures } from '../measure/figures.ts'
import { decadesAround, decadeTicks, roundUp } from './axis.ts'
import type { Line, Plot } from './svg.ts'

const PERCENTILE_TICKS = [0, 50, 90, 99, 99.9, 99.99, 99.999]
const QUARTERS = [0, 0.25, 0.5, 0.75, 1]

/** Latency over percentiles. The horizontal axis gives the slowest answers room, where services differ most. */
export function latencyPlot({ percentiles, latencyMs }: Figures): Plot {
  const widest = Math.max(1, ...percentiles.slice(0, -1).map(({ percentile }) => rarityOf(percentile)))
  const [low, high] = decadesAround(
    percentiles.map(({ ms }) => ms),
    latencyMs.max,
  )
  const points = percentiles.map(({ percentile, ms }) => ({ x: percentile, y: ms }))
  return {
    title: 'Latency in ms by percentile',
    x: (percentile) => Math.min(1, rarityOf(percentile) / widest),
    y: (ms) => Math.log10(Math.max(ms, low) / low) / Math.log10(high / low),
    xTicks: PERCENTILE_TICKS.filter((percentile) => rarityOf(percentile) <= widest).map((percentile) => [
      percentile,
      String(percentile),
    ]),
    yTicks: decadeTicks(low, high),
    lines: [{ className: 'a', label: 'latency', points }],
  }
}

/** 0, 1, 2, 3 for the percentiles 0, 90, 99, 99.9: each step is ten times as rare. */
function rarityOf(percentile: number): number {
  return -Math.log10(1 - Math.min(percentile, 99.9999) / 100)
}

/** Rate over time, of events where a request carries several. */
export function ratePlot({ series, seconds, unit, eventsPerRequest }: Figures): Plot {
  const lines = rateLines(series, eventsPerRequest)
  const highest = roundUp(Math.max(1, ...lines.flatMap(({ points }) => points.map(({ y }) => y))))
  return {
    title: `${unit === 'events' ? 'Events' : 'Requests'} a second over time`,
    ...timeAxis(seconds),
    y: (rate) => rate / highest,
    yTicks: QUARTERS.map((share) => [share * highest, Math.round(share * highest).toLocaleString('en')]),
    lines,
  }
}

/** Latency over time. */
export function latencyOverTimePlot({ series, seconds, latencyMs }: Figures): Plot {
  const measured = series.filter(({ rate }) => rate > 0)
  const [low, high] = decadesAround(
    measured.map(({ p50 }) => p50),
    Math.max(latencyMs.p99, ...measured.map(({ p99 }) => p99)),
  )
  return {
    title: 'Latency in ms over time',
    ...timeAxis(seconds),
    y: (ms) => Math.log10(Math.max(ms, low) / low) / Math.log10(high / low),
    yTicks: decadeTicks(low, high),
    lines: [
      { className: 'a', label: 'p50', points: measured.map(({ at, p50 }) => ({ x: at, y: p50 })) },
      { className: 'b', label: 'p99', points: measured.map(({ at, p99 }) => ({ x: at, y: p99 })) },
    ],
  }
}

function timeAxis(seconds: number): Pick<Plot, 'x' | 'xTicks'> {
  const total = Math.max(1, seconds)
  return {
    x: (at) => at / total,
    xTicks: QUARTERS.map((share) => [share * total, `${Number((share * total).toPrecision(2))} s`]),
  }
}

function rateLines(series: Second[], events: number): Line[] {
  const succeeded = series.map(({ at, rate }) => ({ x: at, y: rate * events }))
  const lines: Line[] = [{ className: 'a', label: 'succeeded', points: succeeded }]
  if (!series.some(({ errors }) => errors > 0)) return lines
  const failed = series.map(({ at, errors }) => ({ x: at, y: errors * events }))
  return [...lines, { className: 'b', label: 'failed', points: failed }]
}
