import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { enter, fill, go, openPages, press, receiveCookie, signIn, submit } from '../support/browser.ts'

/** With two accounts in one browser, a page never acts in a company that it does not show (ASVS 8.2.2). */

const { service, openPage } = await openPages()

/** Like a browser that refuses channels, so that other tabs cannot notify the page. */
const NO_CHANNEL = `globalThis.BroadcastChannel = class {
  constructor() { throw new DOMException('', 'SecurityError') }
}`

const company = (page: Page, name: string) => page.locator('.bar .company', { hasText: name }).waitFor()

/** A page of company A, and a way to sign the browser in to company B. */
async function openTwo({ isTold }: { isTold: boolean }) {
  const [a, b] = [await service.addCompany({ name: 'Alpha' }), await service.addCompany({ name: 'Beta' })]
  const { page, context } = await openPage()
  if (!isTold) await page.addInitScript(NO_CHANNEL)
  await signIn(page, a)
  const signInToB = () => receiveCookie(page, b)
  return { a, b, page, context, signInToB }
}

test("a company's page never invites people into a different company", async () => {
  const { a, b, page, signInToB } = await openTwo({ isTold: false })
  await go(page, 'Members')
  await press(page, 'Invite people')
  await fill(page, { 'Email addresses': 'eve@beta.example' })
  // Otherwise, a poll of the page could find out before the click.
  await page.route(/\/api\/(?!auth\/session$)/, (route) =>
    route.request().method() === 'GET' ? route.abort() : route.continue(),
  )
  await signInToB()
  const refused = page.waitForResponse((response) => response.status() === 409)
  await press(page, 'Invite')
  await refused
  await company(page, 'Beta')
  const companies = [a.companyId, b.companyId]
  const invited = service.db.selectFrom('invitations').selectAll().where('company_id', 'in', companies)
  expect(await invited.execute()).toEqual([])
})

test("a sign-out in one company keeps a different company's session", async () => {
  const { b, page, signInToB } = await openTwo({ isTold: false })
  await go(page, 'Account')
  await signInToB()
  await press(page, 'Sign out')
  await company(page, 'Beta')
  await page.getByText(b.email).first().waitFor()
})

test('a tab hides its company once a different company signs in', async () => {
  const { page, context, signInToB } = await openTwo({ isTold: true })
  await go(page, 'Account')
  await signInToB()
  const second = await context.newPage()
  await page.route('**/*', (route) => route.abort())
  await second.goto('/account')
  await company(second, 'Beta')
  await press(second, 'Change name')
  await submit(second, { Name: 'Renamed' }, 'Save name')
  await second.getByText('Name saved.').waitFor()
  await expect.poll(() => page.getByText('Alpha').count()).toBe(0)
  await expect.poll(() => page.getByRole('button', { name: 'Sign out' }).count()).toBe(0)
  await page.unrouteAll()
  await page.goto('/account')
  await company(page, 'Beta')
})

test('a new session shows nothing that the previous one loaded', async () => {
  const { a, b, page } = await openTwo({ isTold: true })
  const rows = page.getByRole('region', { name: 'All members' }).locator('.list-row')
  await go(page, 'Members')
  await rows.filter({ hasText: a.email }).waitFor()
  await press(page, 'Sign out')
  await page.route(/\/api\/auth\/(?:members|invitations)/, (route) => route.abort())
  await enter(page, b)
  await company(page, 'Beta')
  await go(page, 'Members')
  for (const tab of ['Members', 'Invitations']) {
    await page
      .getByRole('link', { name: new RegExp(`^${tab} ?$`) })
      .last()
      .click()
    await page.getByRole('alert').waitFor()
    expect(await page.content()).not.toContain(a.email)
  }
})
