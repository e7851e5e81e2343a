import type { BrowserContext, Page, Request } from 'playwright-core'
import { expect, test } from 'vitest'
import { enter, go, heading, openPages, press } from '../support/browser.ts'

/** Two accounts in one browser: a page never acts in a company that it does not show (ASVS 8.2.2). */

const { origin, service, openPage } = await openPages()

/** As in a browser that refuses channels, so that the page is not told of other tabs. */
const NO_CHANNEL = `globalThis.BroadcastChannel = class {
  constructor() { throw new DOMException('', 'SecurityError') }
}`

const company = (page: Page, name: string) => page.locator('.bar .company', { hasText: name }).waitFor()

/** A page of company A, and how a second tab signs the browser in to company B. */
async function openTwo({ isTold }: { isTold: boolean }) {
  const [a, b] = [await service.addCompany({ name: 'Alpha' }), await service.addCompany({ name: 'Beta' })]
  const { page, context, expectClean } = await openPage(origin)
  if (!isTold) await page.addInitScript(NO_CHANNEL)
  await page.goto(`${origin}/sign-in`)
  await enter(page, a)
  await heading(page, 'Developer settings')
  const signInToB = async (tabs: BrowserContext) => {
    const second = await tabs.newPage()
    // Once the tab has asked who is signed in: the answer to the cookie of A would take that of B along.
    await Promise.all([second.waitForResponse('**/auth/session'), second.goto(`${origin}/undo`)])
    const { companyId, email, password } = b
    const status = await second.evaluate<number>(`fetch('/api/auth/login', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-session-mode': 'cookie' },
      body: ${JSON.stringify(JSON.stringify({ companyId, email, password }))},
    }).then(({ status }) => status)`)
    expect(status).toBe(200)
    return second
  }
  return { a, b, page, context, expectClean, signInToB: () => signInToB(context) }
}

const isRead = (request: Request) => request.method() === 'GET' || request.url().endsWith('/status')

async function rowsOf(companyIds: string[]): Promise<number> {
  const { db } = service
  const counts = await Promise.all(
    (['invitations', 'signing_secrets'] as const).map((table) =>
      db.selectFrom(table).select('company_id').where('company_id', 'in', companyIds).execute(),
    ),
  )
  return counts.flat().length
}

test.for([
  ['an invitation', '/members'],
  ['a new signing secret', '/developer'],
] as const)(
  '%s from a page of one company is refused in the session of another, which is then shown',
  async ([, path]) => {
    const { a, b, page, expectClean, signInToB } = await openTwo({ isTold: false })
    if (path === '/members') {
      await go(page, 'Members')
      await page.getByLabel('Email addresses').fill('eve@beta.example')
    }
    // The page asks by itself now and then, and could find out before the click.
    await page.route(/\/api\/(?!auth\/session$)/, (route) =>
      isRead(route.request()) ? route.abort() : route.continue(),
    )
    await signInToB()
    const refused = page.waitForResponse((response) => response.status() === 409)
    await press(page, path === '/members' ? 'Invite' : 'Create signing secret')
    await refused
    await company(page, 'Beta')
    expect(await rowsOf([a.companyId, b.companyId])).toBe(0)
    expectClean()
  },
)

test('a sign-out from a page of one company leaves the session of another', async () => {
  const { b, page, expectClean, signInToB } = await openTwo({ isTold: false })
  await go(page, 'Account')
  await signInToB()
  await press(page, 'Sign out')
  await company(page, 'Beta')
  await page.getByText(b.email).first().waitFor()
  expectClean()
})

test('a tab that hears of a sign-in to another company shows the previous one no longer, even offline', async () => {
  const { page, signInToB } = await openTwo({ isTold: true })
  await go(page, 'Account')
  const second = await signInToB()
  await page.route('**/*', (route) => route.abort())
  await second.goto(`${origin}/account`)
  await company(second, 'Beta')
  await second.getByLabel('Name', { exact: true }).fill('Renamed')
  await press(second, 'Save name')
  await second.getByText('Your name is saved.').waitFor()
  await expect.poll(() => page.getByText('Alpha').count()).toBe(0)
  await expect.poll(() => page.getByRole('button', { name: 'Sign out' }).count()).toBe(0)
  await page.unrouteAll()
  await page.goto(`${origin}/account`)
  await company(page, 'Beta')
})
