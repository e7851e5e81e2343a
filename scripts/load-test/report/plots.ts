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

/** Rate over time. */
export function ratePlot({ series, seconds }: Figures): Plot {
  const highest = roundUp(Math.max(1, ...series.map(({ rate }) => rate)))
  const total = Math.max(1, seconds)
  return {
    title: 'Requests a second over time',
    x: (at) => at / total,
    y: (rate) => rate / highest,
    xTicks: QUARTERS.map((share) => [share * total, `${Number((share * total).toPrecision(2))} s`]),
    yTicks: QUARTERS.map((share) => [share * highest, Math.round(share * highest).toLocaleString('en')]),
    lines: rateLines(series),
  }
}

function rateLines(series: Second[]): Line[] {
  const succeeded = series.map(({ at, rate }) => ({ x: at, y: rate }))
  const lines: Line[] = [{ className: 'a', label: 'succeeded', points: succeeded }]
  if (!series.some(({ errors }) => errors > 0)) return lines
  const failed = series.map(({ at, errors }) => ({ x: at, y: errors }))
  return [...lines, { className: 'b', label: 'failed', points: failed }]
}
