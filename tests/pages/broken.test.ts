import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { enter, heading, openPages, press, submit } from '../support/browser.ts'

/** A page's file can be missing on an instance of a different release, or after a network failure. */

const { origin, service, openPage } = await openPages()
const html = await (await fetch(`${origin}/sign-in`)).text()
const FILES = {
  script: /<script type="module" src="([^"]+)"/.exec(html)?.[1] ?? '',
  stylesheet: /<link rel="stylesheet" href="([^"]+)"/.exec(html)?.[1] ?? '',
}

/** Withholds a file `times` times. Counts the loads of the page. */
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

/** Nothing of the earlier failure remains. */
async function expectWhole(page: Page): Promise<void> {
  await expect.poll(() => page.evaluate('sessionStorage.length')).toBe(0)
  expect([await notice(page).count(), await page.locator('main').count()]).toEqual([0, 1])
}

const KINDS = ['script', 'stylesheet'] as const

test.for(KINDS)('a page whose %s is missing reloads once and then works', async (kind) => {
  const { page } = await openPage()
  const loads = await withhold(page, FILES[kind], 1)
  // The emailed link keeps its secret.
  await page.goto('/verify-email#token=abc')
  // Even without its stylesheet, the first load has that heading.
  await expect.poll(loads).toBe(2)
  await heading(page, 'Confirm your email')
  expect(loads()).toBe(2)
  await expectWhole(page)
})

test.for(KINDS)('a page whose %s stays missing shows a notice', async (kind) => {
  const { page } = await openPage()
  const loads = await withhold(page, FILES[kind], 3)
  await page.goto('/sign-in')
  await notice(page).waitFor()
  expect(loads()).toBe(2)
  await expect.poll(() => page.getByText('Loading…').count()).toBe(0)
  // The user reloads twice. The second time, the file is there.
  await press(page, 'Reload the page')
  await expect.poll(loads).toBe(3)
  await notice(page).waitFor()
  await press(page, 'Reload the page')
  await heading(page, 'Sign in')
  expect(loads()).toBe(4)
  await expectWhole(page)
})

test('a page that cannot be reloaded shows missing files immediately', async () => {
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

test('sign-in shows a notice if the browser keeps no cookie', async () => {
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
    // A page that reloads leaves a mark for the next load.
    sessionStorage.length`)
  expect(marks).toBe(0)
})

test('pages behind sign-in that do not load say so, and load with a retry', async () => {
  const { page } = await openPage()
  const isPublic = (url: string) => html.includes(new URL(url).pathname)
  await page.route(/assets\/\w+\.js$/, (route, request) =>
    isPublic(request.url()) ? route.continue() : route.fulfill({ status: 404 }),
  )
  await page.goto('/sign-in')
  await enter(page, await service.addCompany())
  await page.getByRole('alert').getByText("This page didn't load. Check your connection").waitFor()
  await page.unrouteAll()
  await press(page, 'Try again')
  await heading(page, 'Developer settings')
})
