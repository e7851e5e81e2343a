import type { BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, expect } from 'vitest'
import { launchBrowser } from '../../scripts/browser.ts'

/** A real browser, and what its pages must not do. */

export async function openBrowser() {
  const browser = await launchBrowser()
  afterAll(() => browser.close())

  /**
   * Opens a browser of its own. Errors of scripts, refusals by the content security policy, and requests to other
   * servers are collected; `expectClean` says that there were none.
   */
  async function openPage(origin: string, options: BrowserContextOptions = {}) {
    const context = await browser.newContext(options)
    const page: Page = await context.newPage()
    const faults: string[] = []
    page.on('pageerror', ({ message }) => faults.push(message))
    page.on('console', (message) => {
      // The browser says this of every answer from 400 on, also of those that a page expects.
      const isAnswer = message.text().startsWith('Failed to load resource')
      if (message.type() === 'error' && !isAnswer) faults.push(message.text())
    })
    page.on('request', (request) => {
      if (!request.url().startsWith(origin) && !/^(?:data|blob):/.test(request.url()))
        faults.push(request.url())
    })
    return { page, context, expectClean: () => expect(faults).toEqual([]) }
  }
  return { openPage }
}
