import type { Figures, Machine } from './report.ts'
export function toPage(report: {
  machine: Machine
  command: string[]
  at: string
  figures: Figures[]
}): string {
  return JSON.stringify(report)
}
