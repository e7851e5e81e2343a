import type { Figures } from '../measure/figures.ts'
import { short, showRatio } from './columns.ts'

/** What the CPU time of a request went to, above what it cannot do without, as an HTML figure; empty if not measured. */
export function drawCostBars({ cost, cpuMs }: Figures): string {
  if (!cost) return ''
  const used = [
    { name: 'service', ms: cpuMs.service ?? 0 },
    { name: 'Postgres', ms: cpuMs.postgres ?? 0 },
  ]
  const needed = cost.parts.map(({ name, times, cpuMs }) => ({
    name: times === 1 ? name : `${times} × ${name}`,
    ms: cpuMs,
  }))
  const longest = Math.max(totalOf(used), totalOf(needed))
  return `<figure><figcaption>CPU time of a request in µs; cost ratio ${showRatio(cost.ratio)}</figcaption>
${drawBar('it took', used, longest)}
${drawBar('its parts by themselves', needed, longest)}</figure>`
}

interface Segment {
  name: string
  ms: number
}

function drawBar(label: string, segments: Segment[], longest: number): string {
  const total = totalOf(segments)
  const texts = segments.map(({ name, ms }) => `${name} ${short(ms * 1000)}`)
  // In microseconds: parts that together grow by less than 1 would not fill the bar.
  const parts = segments.map(({ ms }, n) => `<span style="flex-grow:${ms * 1000}">${texts[n]}</span>`)
  // In words too: a narrow part has no room for its name.
  return `<p class="quiet">${label}: ${short(total * 1000)} = ${texts.join(' + ')}</p>
<div class="bar" style="width:${((100 * total) / longest).toFixed(1)}%">${parts.join('')}</div>`
}

function totalOf(segments: Segment[]): number {
  return segments.reduce((sum, { ms }) => sum + ms, 0)
}
