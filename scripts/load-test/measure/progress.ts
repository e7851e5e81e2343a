import type { Second } from '../drive/measurement.ts'

/** The progress on standard error: one line that is overwritten each second, or a line every ten seconds in a file. */

const CLEAR_LINE = '\r\u001b[K'

export type OnSecond = (second: Second, leftSeconds: number) => void

/** Shows seconds after a label that says what is measured. */
export function progressLine(label: string, eventsPerOperation = 1): OnSecond {
  return ({ at, rate, p50, p99, errors }, leftSeconds) => {
    const figures = [
      `${Math.round(rate * eventsPerOperation)}/s`,
      `p50 ${p50.toFixed(1)} ms`,
      `p99 ${p99.toFixed(1)} ms`,
      `${errors} errors`,
      `${Math.round(leftSeconds)} s left`,
    ]
    const line = `${label}: ${figures.join('  ')}`
    if (process.stderr.isTTY) process.stderr.write(`${CLEAR_LINE}${line}`)
    else if (Math.round(at) % 10 === 1) console.error(line)
  }
}

export function clearProgress(): void {
  if (process.stderr.isTTY) process.stderr.write(CLEAR_LINE)
}
