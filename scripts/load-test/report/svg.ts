export type Tick = [value: number, label: string]

export interface Line {
  className: 'a' | 'b'
  label: string
  points: { x: number; y: number }[]
}

export interface Plot {
  title: string
  /** The position of a value between the left and the right edge, from 0 to 1. */
  x(value: number): number
  /** The position of a value between the bottom and the top, from 0 to 1. */
  y(value: number): number
  xTicks: Tick[]
  yTicks: Tick[]
  lines: Line[]
}

const WIDTH = 560
const HEIGHT = 260
const [LEFT, RIGHT, TOP, BOTTOM] = [58, WIDTH - 14, 12, HEIGHT - 30]

/** A plot as an HTML figure with an SVG image. */
export function drawPlot(plot: Plot): string {
  const { title, lines } = plot
  const curves = lines.map(({ className, points }) => {
    const path = points.map(({ x, y }) => `${pixelX(plot, x)},${pixelY(plot, y)}`).join(' ')
    return `<polyline class="${className}" points="${path}"/>`
  })
  return `<figure><figcaption>${title}${drawLegend(lines)}</figcaption>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${title}">${drawGrid(plot)}${curves.join('')}</svg></figure>`
}

function drawGrid(plot: Plot): string {
  const horizontal = plot.yTicks.map(([value, label]) => {
    const y = pixelY(plot, value)
    return `<line class="grid" x1="${LEFT}" x2="${RIGHT}" y1="${y}" y2="${y}"/><text class="y" x="${LEFT - 8}" y="${y}" dy="4">${label}</text>`
  })
  const vertical = plot.xTicks.map(([value, label]) => {
    const x = pixelX(plot, value)
    return `<line class="grid" x1="${x}" x2="${x}" y1="${TOP}" y2="${BOTTOM}"/><text class="x" x="${x}" y="${BOTTOM + 18}">${label}</text>`
  })
  return [...horizontal, ...vertical].join('')
}

/** One line needs no legend. */
function drawLegend(lines: Line[]): string {
  if (lines.length < 2) return ''
  const entries = lines.map(({ className, label }) => `<i class="${className}"></i>${label}`)
  return ` <span class="quiet">${entries.join(' ')}</span>`
}

function pixelX({ x }: Plot, value: number): string {
  return (LEFT + x(value) * (RIGHT - LEFT)).toFixed(1)
}

function pixelY({ y }: Plot, value: number): string {
  return (BOTTOM - y(value) * (BOTTOM - TOP)).toFixed(1)
}
