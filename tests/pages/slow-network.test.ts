import { setTimeout as sleep } from 'node:timers/promises'
import type { Route } from 'playwright-core'
import { expect, test } from 'vitest'
import {
  enter,
  go,
  heading,
  openPages,
  press,
  SIGNED_IN,
  say,
  signIn,
  submit,
  visit,
} from '../support/browser.ts'
import { addLargeCompany } from '../support/large-company.ts'
import { PASSWORD } from '../support/test-service.ts'

/** Late responses, a slow network, and pages that poll. */

const { origin, service, openPage, openAdmin } = await openPages()
const large = await addLargeCompany(service)

test('a page clears itself once its session has expired in all tabs (ASVS 7.3.1, 14.3.1)', async () => {
  const { page, context } = await openPage()
  // The service's own clock, which others advance, must fit the time of its responses.
  await page.clock.install()
  const admin = await service.addCompany()
  // The sign-in page leaves a mark for other tabs.
  await page.goto('/sign-in')
  await enter(page, admin)
  await go(page, 'Account')
  await say(page, admin.email)
  await page.waitForLoadState('networkidle')
  await page.clock.fastForward('10:00:00')
  const second = await context.newPage()
  await second.goto('/account')
  await say(second, admin.email)
  await second.close()
  await page.clock.fastForward('11:59:00')
  await page.clock.runFor(30_000)
  await heading(page, 'Your account')
  const asked: string[] = []
  page.on('request', (request) => asked.push(request.url()))
  // The machine sleeps until then.
  await page.clock.fastForward('02:00')
  await say(page, 'You were signed out because you were inactive, or signed in for too long.')
  expect(await page.content()).not.toContain(admin.email)
  // The sign-in page asks only for passkey options.
  expect(asked.filter((url) => !url.includes('/auth/login/'))).toEqual([])
})

test('each page loads with late responses, and nothing moves when they arrive', async () => {
  const { page } = await openPage()
  await page.route('**/api/**', async (route) => {
    await sleep(1_000)
    await route.continue().catch(() => {})
  })
  await page.addInitScript(`globalThis.shift = 0
    new PerformanceObserver((list) => {
      for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) shift += value
    }).observe({ type: 'layout-shift', buffered: true })`)
  await page.goto('/sign-in')
  await enter(page, await service.addCompany())
  await heading(page, 'Developer settings')
  // Users who were signed in before first see the outline of the page. Before its script has loaded, it requests the session.
  const [, script = ''] = /<script type="module" src="([^"]+)"/.exec(await (await fetch(origin)).text()) ?? []
  const asked = page.waitForRequest('**/api/auth/session')
  const outlined = page.locator('.outline .part').first().waitFor()
  const load = async (route: Route) => {
    await Promise.all([asked, outlined])
    await route.continue()
  }
  await page.route(`**${script}`, load, { times: 1 })
  await visit(page, SIGNED_IN, async () => {
    expect(await page.evaluate('shift')).toBeLessThan(0.02)
    expect(await page.locator('.outline').count()).toBe(0)
    expect(await page.locator('main button, main input').count()).toBeGreaterThan(0)
    expect(await page.getByRole('alert').count()).toBe(0)
  })
})

test('a request sent before a confirmation replaced the cookie signs nobody out', async () => {
  const { page, context } = await openAdmin()
  const [cookie] = (await context.cookies()).filter(({ name }) => name === '__Host-session')
  service.clock.advance(16 * 60)
  await press(page, 'Create signing secret')
  await submit(page, { Password: PASSWORD }, 'Continue')
  await say(page, 'Your new secret, version 1.')
  // The response to a request with the old cookie arrives after the new cookie.
  const path = '/auth/webhook-secret/status'
  const late = async (route: Route) => {
    const { 'x-session-id': id = '' } = await route.request().allHeaders()
    const answer = await service.call(path, { cookie: cookie?.value ?? '', headers: { 'x-session-id': id } })
    expect(answer.status).toBe(401)
    const { 'content-type': type, 'set-cookie': set, 'cache-control': kept } = answer.headers
    const headers = {
      'content-type': String(type),
      'cache-control': String(kept),
      ...(set && { 'set-cookie': String(set) }),
    }
    await route.fulfill({ status: 401, headers, json: answer.body })
  }
  const answered = page.waitForResponse((response) => response.url().endsWith(path) && response.ok())
  await page.route(`**${path}`, late, { times: 1 })
  await page.waitForResponse((response) => response.url().endsWith(path) && response.status() === 401)
  await answered
  await heading(page, 'Developer settings')
})

test('a list is never shown under a different filter', async () => {
  const { page } = await openPage()
  await signIn(page, large)
  await go(page, 'Members')
  const rows = page.locator('.list-row')
  const more = page.getByRole('button', { name: 'Show more' })
  const roles = () => rows.locator('td[data-label=Role]').allInnerTexts()
  await rows.nth(49).waitFor()
  /** Delays responses to a query until they are released or fail. */
  async function hold(query: string) {
    const gate = Promise.withResolvers<'continue' | 'fail'>()
    await page.route(
      (url) => url.pathname === '/api/auth/members' && url.search.includes(query),
      async (route) => {
        if ((await gate.promise) === 'continue') return await route.continue()
        await route.fulfill({ status: 503, headers: { 'cache-control': 'no-store' }, body: '{}' })
      },
    )
    return async (how: 'continue' | 'fail') => {
      gate.resolve(how)
      await page.waitForLoadState('networkidle')
    }
  }
  const filter = page.locator('search').getByLabel('Role')

  const answerViewers = await hold('role=viewer')
  await filter.selectOption('viewer')
  await say(page, 'Loading…')
  expect([await rows.count(), await more.count()]).toEqual([0, 0])
  await answerViewers('continue')
  await rows.nth(49).waitFor()
  expect(new Set(await roles())).toEqual(new Set(['viewer']))

  const answerMore = await hold('cursor=')
  await more.click()
  await filter.selectOption('analyst')
  await rows.nth(49).waitFor()
  await answerMore('continue')
  await more.waitFor()
  expect(await rows.count()).toBe(50)
  expect(new Set(await roles())).toEqual(new Set(['analyst']))

  const answerDevelopers = await hold('role=developer')
  await filter.selectOption('developer')
  await answerDevelopers('fail')
  await page.getByRole('alert').getByText('gatehouse is busy').waitFor()
  expect([await rows.count(), await more.count()]).toEqual([0, 0])
  await press(page, 'Try again')
  await page.waitForLoadState('networkidle')
  await page.locator('button:focus', { hasText: 'Try again' }).waitFor()
  await page.unrouteAll()
  await press(page, 'Try again')
  await rows.nth(49).waitFor()
  expect(new Set(await roles())).toEqual(new Set(['developer']))
})

test('a change stays when more rows load at the same time', async () => {
  const { page } = await openPage()
  await signIn(page, large)
  await page.goto('/members?role=viewer&status=active')
  const rows = page.locator('.list-row')
  const more = page.getByRole('button', { name: 'Show more' })
  await more.waitFor()
  const gate = Promise.withResolvers<void>()
  await page.route('**/api/auth/members?*cursor=*', async (route) => {
    await gate.promise
    await route.continue()
  })
  await more.click()
  await rows
    .nth(0)
    .getByRole('button', { name: /^Manage/ })
    .click()
  await page.getByRole('button', { name: /^Disable/ }).click()
  await press(page.getByRole('dialog'), 'Disable')
  await say(page, 'Disabled. All sessions have ended.')
  gate.resolve()
  await rows.nth(99).waitFor()
  await say(rows.nth(0), 'disabled')
})

test('sections reload when the network returns', async () => {
  const { page, context, admin } = await openAdmin()
  await go(page, 'Members')
  const rows = page.getByRole('region', { name: 'All members' }).locator('.list-row')
  await rows.filter({ hasText: admin.email }).waitFor()
  await page.waitForLoadState('networkidle')
  await context.setOffline(true)
  const { email } = await service.addUser(admin)
  await context.setOffline(false)
  // Sections that had loaded show what changed in the meantime.
  await rows.filter({ hasText: email }).waitFor()

  await context.setOffline(true)
  await go(page, 'Activity')
  const alerts = page.getByRole('alert')
  await expect.poll(() => alerts.allInnerTexts()).toHaveLength(2)
  for (const text of await alerts.allInnerTexts()) expect(text).toContain("We can't reach gatehouse.")
  await context.setOffline(false)
  await page.getByRole('table').waitFor()
  await expect.poll(() => alerts.count()).toBe(0)
})

test('a page retries while other reads of the company wait', async () => {
  const { page } = await openAdmin()
  let refusals = 0
  await page.route('**/api/auth/audit?**', async (route) => {
    refusals += 1
    const refused = { status: 429, headers: { 'retry-after': '1', 'cache-control': 'no-store' } }
    await (refusals <= 2 ? route.fulfill(refused) : route.continue())
  })
  await page.goto('/activity')
  await page.getByRole('table').first().waitFor()
  expect(refusals).toBe(3)
  expect(await page.getByRole('alert').count()).toBe(0)
})

test('polls never overlap, slow down, stop while hidden or idle, and then continue', async () => {
  const { page } = await openPage()
  await page.clock.install()
  await signIn(page, await service.addCompany())
  let asked = 0
  let open = 0
  let most = 0
  await page.route('**/webhook-secret/status', async (route) => {
    asked += 1
    open += 1
    most = Math.max(most, open)
    await sleep(50)
    open -= 1
    await route.continue()
  })
  const now = () => page.evaluate<number>('Date.now()')
  /** Advances time until `times` more requests were sent. Returns the page's seconds, including real ones. */
  async function untilAsked(times: number): Promise<number> {
    const beganAt = await now()
    for (const enough = asked + times; asked < enough; ) {
      await page.clock.runFor(1_000)
      await expect.poll(() => open).toBe(0)
      // The page schedules the next poll only after the response.
      await page.waitForLoadState('networkidle')
    }
    return ((await now()) - beganAt) / 1000
  }
  const setHidden = (isHidden: boolean) =>
    page.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, value: ${isHidden} });
      document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))`)

  // Every two seconds at first. The first one may come immediately.
  expect(await untilAsked(3)).toBeGreaterThanOrEqual(4)
  // Polls slow down because nobody uses the page, but they do not end, even after ten minutes.
  await page.clock.fastForward('20:00')
  expect(await untilAsked(2)).toBeGreaterThanOrEqual(20)
  expect(most).toBe(1)

  await setHidden(true)
  await page.clock.runFor(60_000)
  const before = asked
  await page.clock.runFor(180_000)
  expect(asked).toBe(before)
  await setHidden(false)
  // Once the page is shown, polls continue.
  await untilAsked(2)

  await page.clock.fastForward('01:01:00')
  await page.clock.runFor(60_000)
  const idle = asked
  await page.clock.runFor(180_000)
  expect(asked).toBe(idle)
  await page.keyboard.press('Shift')
  await untilAsked(2)
})

test('a busy button keeps the focus, and a second click starts nothing', async () => {
  const { page } = await openAdmin()
  await go(page, 'Activity')
  const button = page.getByRole('button', { name: 'CSV' })
  const downloads: Route[] = []
  await page.route('**/auth/audit', (route) => void downloads.push(route))
  await button.focus()
  await page.keyboard.press('Enter')
  await expect.poll(() => button.getAttribute('aria-disabled')).toBe('true')
  await page.keyboard.press('Enter')
  await expect.poll(() => downloads.length).toBe(1)
  const download = page.waitForEvent('download')
  await downloads[0]?.continue()
  await download
  await expect.poll(() => button.getAttribute('aria-disabled')).toBe('false')
  expect(downloads.length).toBe(1)
  await page.locator('button:focus', { hasText: 'CSV' }).waitFor()
})
