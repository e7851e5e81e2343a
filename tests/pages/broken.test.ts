import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { enter, heading, openPages, press, submit } from '../support/browser.ts'

/** Pages of which a file cannot be had: an instance of another release does not have it, or the network fails. */

const { origin, service, openPage } = await openPages()
const html = await (await fetch(`${origin}/sign-in`)).text()
const FILES = {
  script: /<script type="module" src="([^"]+)"/.exec(html)?.[1] ?? '',
  stylesheet: /<link rel="stylesheet" href="([^"]+)"/.exec(html)?.[1] ?? '',
}

/** Lets a file not come, for so many times. Counts how often the page is loaded. */
async function withhold(page: Page, file: string, times: number) {
  let left = times
  let loads = 0
  await page.route(file, async (route) => {
    left -= 1
    if (left >= 0) await route.fulfill({ status: 404 })
    else await route.continue()
  })
  page.on('request', (request) => {
    if (request.isNavigationRequest()) loads += 1
  })
  return () => loads
}

const notice = (page: Page) => page.getByRole('alert').getByText("This page didn't load completely.")

/** Nothing is left of what failed before. */
async function expectWhole(page: Page): Promise<void> {
  await expect.poll(() => page.evaluate('sessionStorage.length')).toBe(0)
  expect([await notice(page).count(), await page.locator('main').count()]).toEqual([0, 1])
}

const KINDS = ['script', 'stylesheet'] as const

test.for(KINDS)('a page whose %s is missing is loaded once more and then works', async (kind) => {
  const { page } = await openPage()
  const loads = await withhold(page, FILES[kind], 1)
  // The secret of a mailed link is not lost.
  await page.goto('/verify-email#token=abc')
  // Without its stylesheet, the first has that heading too.
  await expect.poll(loads).toBe(2)
  await heading(page, 'Confirm your email')
  expect(loads()).toBe(2)
  await expectWhole(page)
})

test.for(KINDS)('a page whose %s stays missing says so', async (kind) => {
  const { page } = await openPage()
  const loads = await withhold(page, FILES[kind], 3)
  await page.goto('/sign-in')
  await notice(page).waitFor()
  expect(loads()).toBe(2)
  await expect.poll(() => page.getByText('Loading…').count()).toBe(0)
  // Somebody tries it, and again when the file is there.
  await press(page, 'Reload the page')
  await expect.poll(loads).toBe(3)
  await notice(page).waitFor()
  await press(page, 'Reload the page')
  await heading(page, 'Sign in')
  expect(loads()).toBe(4)
  await expectWhole(page)
})

test('a page that cannot be reloaded says immediately that files are missing', async () => {
  for (const script of [
    `Object.defineProperty(navigator, 'onLine', { value: false })`,
    `Object.defineProperty(globalThis, 'sessionStorage', { get() { throw new DOMException('', 'SecurityError') } })`,
  ]) {
    const { page } = await openPage()
    await page.addInitScript(script)
    const loads = await withhold(page, FILES.script, 1)
    await page.goto('/sign-in')
    await notice(page).waitFor()
    expect(loads()).toBe(1)
  }
})

test('sign-in says so if the browser keeps no cookie', async () => {
  const admin = await service.addCompany()
  const { page, context } = await openPage()
  await page.route('**/api/auth/login', async (route) => {
    const response = await route.fetch()
    const { 'set-cookie': _, ...headers } = response.headers()
    await context.clearCookies()
    await route.fulfill({ response, headers })
  })
  await page.goto('/sign-in')
  await enter(page, admin)
  await page.getByRole('alert').getByText("this browser didn't keep the session cookie").waitFor()
  await page.unroute('**/api/auth/login')
  await submit(page, { Password: admin.password }, 'Sign in')
  await heading(page, 'Developer settings')
})

test('a missing file of a browser extension changes nothing', async () => {
  const { page } = await openPage()
  await page.goto('/sign-in')
  await heading(page, 'Sign in')
  const marks = await page.evaluate(`
    document.head.append(Object.assign(document.createElement('link'), { href: 'chrome-extension://a/b.css' }))
    document.head.lastChild.dispatchEvent(new Event('error'))
    // Before a page is loaded again, it says so to the next.
    sessionStorage.length`)
  expect(marks).toBe(0)
})
