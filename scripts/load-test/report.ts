import { alignColumns } from '../kit/report.ts'
import type { Figures, Side } from './measure.ts'

const NONE = '–'
/** Above this share of its time, the load generator itself may limit the rate. */
const MAX_BUSY_SHARE = 0.95

const COLUMNS: [title: string, show: (figures: Figures) => string][] = [
  ['scenario', ({ scenario }) => scenario],
  ['requests/s', ({ gatehouse }) => short(gatehouse.rate)],
  ['p50 ms', ({ gatehouse }) => short(gatehouse.p50)],
  ['p99 ms', ({ gatehouse }) => short(gatehouse.p99)],
  ['CPU ms: service, Postgres', ({ gatehouse }) => showCpu(gatehouse)],
  ['cost ratio (min–max)', ({ costRatios }) => showRatio(costRatios)],
  ['log, tables in bytes', ({ gatehouse }) => `${short(gatehouse.logBytes)}, ${short(gatehouse.tableBytes)}`],
  ['plain: requests/s', ({ plain }) => (plain ? short(plain.rate) : NONE)],
  ['CPU ms', ({ plain }) => (plain ? showCpu(plain) : NONE)],
  ['gatehouse/plain: rate', ({ rateRatios }) => showRatio(rateRatios)],
  ['CPU', ({ cpuRatios }) => showRatio(cpuRatios)],
]

export function toText(figures: Figures[]): string {
  const rows = [
    COLUMNS.map(([title]) => title),
    ...figures.map((one) => COLUMNS.map(([, show]) => show(one))),
  ]
  const remarks = figures.flatMap((one) => remarksOf(one).map((remark) => `${one.scenario}: ${remark}`))
  return [...alignColumns(rows), '', ...remarks].join('\n')
}

/** Whether every scenario had successful responses, and no errors except 429. */
export function isClean(figures: Figures[]): boolean {
  return figures.every(
    ({ gatehouse: { succeeded, errors } }) =>
      succeeded > 0 && Object.keys(errors).every((code) => code.startsWith('429')),
  )
}

function remarksOf({ gatehouse, plain, parts }: Figures): string[] {
  const failuresOf = (side: Side | null, of: string) =>
    Object.entries(side?.errors ?? {}).map(([code, count]) => `${count} × ${code}${of}`)
  const costs = Object.entries(parts).map(([name, ms]) => `${name} ${ms.toFixed(3)}`)
  const isBusy = gatehouse.busyShare > MAX_BUSY_SHARE
  return [
    ...failuresOf(gatehouse, ''),
    ...failuresOf(plain, ' (plain)'),
    ...(costs.length > 0 ? [`required parts (CPU ms): ${costs.join(', ')}`] : []),
    ...(isBusy ? ['the load generator was busy all the time, and may have limited the rate'] : []),
  ]
}

const showCpu = ({ serviceMs, postgresMs }: Side) =>
  Number.isNaN(serviceMs + postgresMs) ? NONE : `${serviceMs.toFixed(3)}, ${postgresMs.toFixed(3)}`

/** The median of the rounds, with minimum and maximum. */
function showRatio(values: number[]): string {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = (sorted.length - 1) / 2
  const [min, below, above, max] = [0, Math.floor(middle), Math.ceil(middle), -1].map((at) => sorted.at(at))
  if (min === undefined || below === undefined || above === undefined || max === undefined) return NONE
  return `${((below + above) / 2).toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`
}

/** Three significant digits; from 1,000, all digits. */
function short(value: number): string {
  if (value >= 1000) return Math.round(value).toLocaleString('en')
  return value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)
}
