import type { Figures } from '../measure/figures.ts'

/** What page.js draws: the values of the horizontal axis, then those of each line. */
export interface Plot {
  title: string
  x: 'percentile' | 'seconds'
  isLogarithmic: boolean
  labels: string[]
  columns: (number | null)[][]
}

/** Latency over percentiles: see `rarityOf`. */
export function latencyPlot({ percentiles }: Figures): Plot {
  return {
    title: 'Latency in ms by percentile',
    x: 'percentile',
    isLogarithmic: true,
    labels: ['latency'],
    columns: [percentiles.map(({ percentile }) => rarityOf(percentile)), percentiles.map(({ ms }) => ms)],
  }
}

/** 0, 1, 2, 3 for the percentiles 0, 90, 99, 99.9, so that the slowest answers, where services differ most, have room. */
function rarityOf(percentile: number): number {
  return -Math.log10(1 - Math.min(percentile, 99.9999) / 100)
}

/** Rate over time, of events where a request carries several. */
export function ratePlot({ series, unit, eventsPerRequest }: Figures): Plot {
  return {
    title: `${unit === 'events' ? 'Events' : 'Requests'} a second over time`,
    x: 'seconds',
    isLogarithmic: false,
    labels: ['succeeded', 'failed'],
    columns: [
      series.map(({ at }) => at),
      series.map(({ rate }) => rate * eventsPerRequest),
      series.map(({ errors }) => errors * eventsPerRequest),
    ],
  }
}

/** Latency over time. */
export function latencyOverTimePlot({ series }: Figures): Plot {
  // A second without an answer has no latency.
  const measured = (ms: number) => (ms > 0 ? ms : null)
  return {
    title: 'Latency in ms over time',
    x: 'seconds',
    isLogarithmic: true,
    labels: ['p50', 'p99'],
    columns: [
      series.map(({ at }) => at),
      series.map(({ p50 }) => measured(p50)),
      series.map(({ p99 }) => measured(p99)),
    ],
  }
}
