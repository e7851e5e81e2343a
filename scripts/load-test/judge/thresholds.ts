import type { Figures } from '../measure/figures.ts'
import { UsageError } from '../usage-error.ts'

/** Thresholds for CI, such as `refresh.p99>100`: a scenario, a figure, and what the figure must not be. */

export interface Threshold {
  text: string
  scenario: string
  figure: string
  isMissed(value: number): boolean
}

/** What can be compared, by the name that --fail-if takes; null if it was not measured. */
const FIGURES: Record<string, (figures: Figures) => number | null> = {
  rate: ({ rate }) => rate,
  p50: ({ latencyMs }) => latencyMs.p50,
  p90: ({ latencyMs }) => latencyMs.p90,
  p95: ({ latencyMs }) => latencyMs.p95,
  p99: ({ latencyMs }) => latencyMs.p99,
  p999: ({ latencyMs }) => latencyMs.p999,
  max: ({ latencyMs }) => latencyMs.max,
  errors: ({ errors }) => Object.values(errors).reduce((sum, count) => sum + count, 0),
  cpu: ({ cpuMs }) => cpuMs.service,
  memory: ({ memoryMb }) => (memoryMb.length > 0 ? Math.max(...memoryMb) : null),
  cost: ({ cost }) => cost?.ratio.median ?? null,
  ratio: ({ baseline }) => baseline?.ratio.median ?? null,
}

export const FIGURE_NAMES = Object.keys(FIGURES).join(', ')

const FORM = /^\s*([a-z-]+)\.([a-z0-9]+)\s*([<>])\s*(\d+(?:\.\d+)?)\s*$/

/** @throws UsageError that says what is wrong with the text */
export function parseThreshold(text: string, scenarios: string[]): Threshold {
  const [, scenario, figure = '', operator, limit] = FORM.exec(text) ?? []
  if (scenario === undefined)
    throw new UsageError(
      `--fail-if takes <scenario>.<figure> and > or < a number, such as refresh.p99>100, not ${text}`,
    )
  if (!scenarios.includes(scenario))
    throw new UsageError(`--fail-if ${text}: ${scenario} is not measured; ${scenarios.join(', ')} are`)
  if (!Object.hasOwn(FIGURES, figure))
    throw new UsageError(`--fail-if ${text}: there is no figure ${figure}; there are ${FIGURE_NAMES}`)
  const isMissed = (value: number) => (operator === '>' ? value > Number(limit) : value < Number(limit))
  return { text: text.trim(), scenario, figure, isMissed }
}

/** A line for each threshold that is missed, or whose figure is not there: CI must not pass without it. */
export function findMissed(thresholds: Threshold[], all: Figures[]): string[] {
  return thresholds.flatMap(({ text, scenario, figure, isMissed }) => {
    const figures = all.find((one) => one.scenario === scenario)
    if (!figures || figures.succeeded === 0) return [`${text}: ${scenario} was not measured`]
    const value = FIGURES[figure]?.(figures) ?? null
    if (value === null) return [`${text}: ${scenario} has no ${figure} here`]
    return isMissed(value) ? [`${text}: it is ${Number(value.toPrecision(4))}`] : []
  })
}
