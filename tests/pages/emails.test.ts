import { expect, onTestFinished, test } from 'vitest'
import { contextOf, KINDS, write } from '../mail/write.ts'
import { shareBrowser } from '../support/browser.ts'

test('emails with long names fit small windows (WCAG 1.4.10)', async () => {
  const browser = await shareBrowser()
  const page = await browser.newPage({ viewport: { width: 320, height: 740 } })
  onTestFinished(() => page.close())
  const widths: Record<string, number> = {}
  for (const kind of KINDS) {
    await page.setContent(write(kind, contextOf('x'.repeat(100))).html)
    widths[kind] = await page.evaluate<number>('document.documentElement.scrollWidth')
  }
  expect(widths).toEqual(Object.fromEntries(KINDS.map((kind) => [kind, 320])))
})
