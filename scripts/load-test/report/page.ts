import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Figures } from '../measure/figures.ts'
import { COLUMNS, remarksOf } from './columns.ts'
import { drawCostBars } from './cost-bars.ts'
import { describeMachine, describePrograms } from './machine.ts'
import { latencyOverTimePlot, latencyPlot, type Plot, ratePlot } from './plots.ts'
import type { Report } from './report.ts'

const uplot = join(import.meta.dirname, '../../../node_modules/uplot/dist')
const read = (...path: string[]) => readFileSync(join(...path), 'utf8')
const STYLE = read(uplot, 'uPlot.min.css') + read(import.meta.dirname, 'page.css')
const SCRIPT = read(uplot, 'uPlot.iife.min.js') + read(import.meta.dirname, 'page.js')

/** The report as one HTML page that loads nothing else: tables and plots. */
export function toPage({ machine, command, at, figures, wasInterrupted, sharesMachine }: Report): string {
  const host = `${describeMachine(machine)}, ${machine.platform}: ${describePrograms(sharesMachine)}.`
  const call = ['npm run load-test', ...(command.length > 0 ? ['--', ...command] : [])].join(' ')
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>gatehouse load test</title>
<style>
${STYLE}</style>
<h1>gatehouse load test</h1>
<p>${escapeHtml(host)}${wasInterrupted ? ' Ended early.' : ''}</p>
<p class="quiet">${escapeHtml(at)} · <code>${escapeHtml(call)}</code></p>
<div class="wide">${summaryTable(figures)}</div>
${figures.map(scenarioSection).join('\n')}
<script>
${SCRIPT}</script>
</html>
`
}

function summaryTable(figures: Figures[]): string {
  const head = COLUMNS.map(([title]) => `<th>${escapeHtml(title)}`).join('')
  const rows = figures.map(
    (one) => `<tr>${COLUMNS.map(([, show]) => `<td>${escapeHtml(show(one))}`).join('')}`,
  )
  return `<table><thead><tr>${head}<tbody>${rows.join('\n')}</table>`
}

function scenarioSection(figures: Figures): string {
  const { scenario, about, connections, targetRate, rounds, seconds } = figures
  const loop = targetRate === null ? 'closed loop' : `open loop at ${targetRate}/s`
  const remarks = remarksOf(figures).map((remark) => `<p class="quiet">${escapeHtml(remark)}</p>`)
  return `<section>
<h2>${escapeHtml(scenario)}</h2>
<p>${escapeHtml(about)}. ${connections} connections, ${loop}, ${rounds} round${rounds === 1 ? '' : 's'}, ${seconds.toFixed(0)} s in all.</p>
${remarks.join('\n')}
<div class="plots">
${[latencyPlot(figures), latencyOverTimePlot(figures), ratePlot(figures)].map(plotFigure).join('\n')}
</div>
${drawCostBars(figures)}
</section>`
}

function plotFigure(plot: Plot): string {
  return `<figure data-plot="${escapeHtml(JSON.stringify(plot))}"><figcaption>${plot.title}</figcaption></figure>`
}

function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
