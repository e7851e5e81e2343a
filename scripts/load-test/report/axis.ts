import type { Tick } from './svg.ts'

/** The powers of ten below the lowest and above the highest value. */
export function decadesAround(values: number[], highest: number): [low: number, high: number] {
  const lowest = Math.min(highest, ...values.filter((value) => value > 0))
  if (!(lowest > 0)) return [1, 10]
  const low = 10 ** Math.floor(Math.log10(lowest))
  return [low, Math.max(low * 10, 10 ** Math.ceil(Math.log10(highest)))]
}

export function decadeTicks(low: number, high: number): Tick[] {
  const ticks: Tick[] = []
  for (let value = low; value <= high * 1.001; value *= 10)
    ticks.push([value, String(Number(value.toPrecision(1)))])
  return ticks
}

/** The next number that is 1, 2 or 5 times a power of ten. */
export function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 5].find((step) => step * power >= value) ?? 10) * power
}
