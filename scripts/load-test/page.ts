import type { Second } from './drive.ts'
import { COLUMNS, type Figures, type Machine } from './report.ts'

/** The figures as one page that needs nothing else: tables, and plots drawn as SVG, in light and dark. */

export interface Report {
  wasInterrupted: boolean
  /** Whether service and Postgres ran on this machine too. */
  sharesMachine: boolean
  machine: Machine
  command: string[]
  at: string
  figures: Figures[]
}

interface Point {
  x: number
  y: number
}

interface Plot {
  title: string
  /** Where a value stands between the left and the right edge, or the bottom and the top, from 0 to 1. */
  x(value: number): number
  y(value: number): number
  xTicks: [value: number, label: string][]
  yTicks: [value: number, label: string][]
  lines: { className: string; label: string; points: Point[] }[]
}

const WIDTH = 560
const HEIGHT = 260
const EDGE = { left: 58, right: 14, top: 12, bottom: 30 }

export function toPage({ machine, command, at, figures, wasInterrupted, sharesMachine }: Report): string {
  const host = `${machine.cores} cores (${machine.cpu}), ${machine.memoryGb} GB, Node ${machine.node}, ${machine.platform}`
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>gatehouse load test</title>
<style>${STYLE}</style>
<h1>gatehouse load test</h1>
<p>${escapeHtml(host)}: ${sharesMachine ? 'load generator, service and Postgres' : 'the load generator'}.${wasInterrupted ? ' Ended early.' : ''}</p>
<p class="quiet">${escapeHtml(at)} · <code>npm run load-test${command.length > 0 ? ` -- ${escapeHtml(command.join(' '))}` : ''}</code></p>
<div class="wide">${summary(figures)}</div>
${figures.map(section).join('\n')}
</html>
`
}

function summary(figures: Figures[]): string {
  const head = COLUMNS.map(([title]) => `<th>${escapeHtml(title)}`).join('')
  const rows = figures.map(
    (one) => `<tr>${COLUMNS.map(([, show]) => `<td>${escapeHtml(show(one))}`).join('')}`,
  )
  return `<table><thead><tr>${head}<tbody>${rows.join('\n')}</table>`
}

function section(figures: Figures): string {
  const { scenario, about, connections, targetRate, rounds, seconds, errors, wrong, notes } = figures
  const how = targetRate === null ? 'closed loop' : `open loop at ${targetRate}/s`
  const remarks = [
    ...Object.entries(errors).map(([code, count]) => `${count} × ${code}`),
    ...(wrong > 0 ? [`${wrong} wrong answers`] : []),
    ...notes,
  ]
  return `<section>
<h2>${escapeHtml(scenario)}</h2>
<p>${escapeHtml(about)}. ${connections} connections, ${how}, ${rounds} round${rounds === 1 ? '' : 's'}, ${seconds.toFixed(0)} s in all.</p>
${remarks.map((remark) => `<p class="quiet">${escapeHtml(remark)}</p>`).join('\n')}
<div class="plots">
${draw(latencyPlot(figures))}
${draw(ratePlot(figures))}
</div>
</section>`
}

/** Each step to the right is ten times as rare: the tail is where services differ. */
function latencyPlot({ percentiles, latencyMs }: Figures): Plot {
  const rarity = (percentile: number) => Math.log10(1 / (1 - Math.min(percentile, 99.9999) / 100))
  const widest = Math.max(1, ...percentiles.slice(0, -1).map(({ percentile }) => rarity(percentile)))
  const [low, high] = decades(
    percentiles.map(({ ms }) => ms),
    latencyMs.max,
  )
  const names: [number, string][] = [
    [0, '0'],
    [50, '50'],
    [90, '90'],
    [99, '99'],
    [99.9, '99.9'],
    [99.99, '99.99'],
    [99.999, '99.999'],
  ]
  return {
    title: 'Latency in ms by percentile',
    x: (percentile) => Math.min(1, rarity(percentile) / widest),
    y: (ms) => (Math.log10(Math.max(ms, low)) - Math.log10(low)) / (Math.log10(high) - Math.log10(low)),
    xTicks: names.filter(([percentile]) => rarity(percentile) <= widest),
    yTicks: logTicks(low, high),
    lines: [
      {
        className: 'a',
        label: 'latency',
        points: percentiles.map(({ percentile, ms }) => ({ x: percentile, y: ms })),
      },
    ],
  }
}

function ratePlot({ series, seconds }: Figures): Plot {
  const highest = roundUp(Math.max(1, ...series.map(({ rate }) => rate)))
  const line = (of: (second: Second) => number) => series.map((second) => ({ x: second.at, y: of(second) }))
  const total = Math.max(1, seconds)
  return {
    title: 'Requests a second over time',
    x: (at) => at / total,
    y: (rate) => rate / highest,
    xTicks: [0, 0.25, 0.5, 0.75, 1].map((share) => [
      share * total,
      `${Number((share * total).toPrecision(2))} s`,
    ]),
    yTicks: [0, 0.25, 0.5, 0.75, 1].map((share) => [
      share * highest,
      Math.round(share * highest).toLocaleString('en'),
    ]),
    lines: [
      { className: 'a', label: 'succeeded', points: line(({ rate }) => rate) },
      // Drawn only where there is something to see.
      ...(series.some(({ errors }) => errors > 0)
        ? [{ className: 'b', label: 'failed', points: line(({ errors }) => errors) }]
        : []),
    ],
  }
}

function decades(values: number[], highest: number): [number, number] {
  const lowest = Math.min(highest, ...values.filter((value) => value > 0))
  if (!(lowest > 0)) return [1, 10]
  const low = 10 ** Math.floor(Math.log10(lowest))
  return [low, Math.max(low * 10, 10 ** Math.ceil(Math.log10(highest)))]
}

function logTicks(low: number, high: number): [number, string][] {
  const ticks: [number, string][] = []
  for (let tick = low; tick <= high * 1.001; tick *= 10)
    ticks.push([tick, String(Number(tick.toPrecision(1)))])
  return ticks
}

/** To a figure that reads well: 1, 2 or 5 and zeros. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 5].find((step) => step * power >= value) ?? 10) * power
}

function draw({ title, x, y, xTicks, yTicks, lines }: Plot): string {
  const left = (value: number) => (EDGE.left + x(value) * (WIDTH - EDGE.left - EDGE.right)).toFixed(1)
  const top = (value: number) =>
    (HEIGHT - EDGE.bottom - y(value) * (HEIGHT - EDGE.top - EDGE.bottom)).toFixed(1)
  const grid = [
    ...yTicks.map(
      ([value, label]) =>
        `<line class="grid" x1="${EDGE.left}" x2="${WIDTH - EDGE.right}" y1="${top(value)}" y2="${top(value)}"/>` +
        `<text class="y" x="${EDGE.left - 8}" y="${top(value)}" dy="4">${label}</text>`,
    ),
    ...xTicks.map(
      ([value, label]) =>
        `<line class="grid" x1="${left(value)}" x2="${left(value)}" y1="${EDGE.top}" y2="${HEIGHT - EDGE.bottom}"/>` +
        `<text class="x" x="${left(value)}" y="${HEIGHT - EDGE.bottom + 18}">${label}</text>`,
    ),
  ]
  const curves = lines.map(({ className, points }) => {
    const path = points.map((point) => `${left(point.x)},${top(point.y)}`).join(' ')
    return `<polyline class="${className}" points="${path}"/>`
  })
  const legend =
    lines.length > 1
      ? ` <span class="quiet">${lines.map(({ className, label }) => `<i class="${className}"></i>${label}`).join(' ')}</span>`
      : ''
  return `<figure><figcaption>${title}${legend}</figcaption>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${title}">${grid.join('')}${curves.join('')}</svg></figure>`
}

function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

const STYLE = `
:root { color-scheme: light dark; --ink: #1c1f24; --quiet: #626b78; --paper: #fff; --line: #dfe3e8; --a: #2563c9; --b: #c2410c }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --quiet: #98a1ae; --paper: #15181d; --line: #2c323b; --a: #79aaff; --b: #ff9a66 }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1320px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.15rem; margin: 0 } section { margin-top: 2.2rem }
p { margin: .3rem 0 } .quiet { color: var(--quiet) } .wide { overflow-x: auto; margin-top: 1rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .85rem; white-space: nowrap }
th, td { text-align: right; padding: .35rem .5rem; border-bottom: 1px solid var(--line) }
th { color: var(--quiet); font-weight: 500 } th:first-child, td:first-child, th:last-child, td:last-child { text-align: left }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 1.5rem; margin-top: .8rem }
figure { margin: 0 } figcaption { font-weight: 500; margin-bottom: .3rem } svg { width: 100%; height: auto }
svg text { font-size: 11px; fill: var(--quiet) } text.y { text-anchor: end } text.x { text-anchor: middle }
.grid { stroke: var(--line) } polyline { fill: none; stroke-width: 2; stroke-linejoin: round }
polyline.a { stroke: var(--a) } polyline.b { stroke: var(--b) }
i { display: inline-block; width: 1.1em; height: 3px; vertical-align: middle; margin: 0 .3em 0 .6em } i.a { background: var(--a) } i.b { background: var(--b) }
`
