import { sql } from 'kysely'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { enter, heading, openPages, press, say } from '../support/browser.ts'
import { times } from '../support/test-service.ts'

/** A large company: 500 members with long names, and 5 000 entries in the audit log. */

const { origin, service, openPage } = await openPages()
const { db } = service
const LONG = 'Wolfeschlegelsteinhausenbergerdorffwelchevoralternwarengewissenhaftsch'

async function openLarge() {
  const admin = await service.addCompany({ name: LONG })
  const { companyId } = admin
  await sql`
    insert into users (company_id, user_id, email, name, search_name, role, assignments, kind, status, password_hash,
      email_verified_at, created_at)
    select ${companyId}, gen_random_uuid(), 'member' || n || '@large.example', ${LONG} || n, lower(${LONG} || n),
      (array['viewer', 'analyst', 'developer'])[1 + n % 3], '{environment:production}', 'person',
      case when n % 10 = 0 then 'disabled' else 'active' end, '', now(), now()
    from generate_series(1, 499) n`.execute(db)
  await sql`
    insert into audit_events (company_id, audit_id, occurred_at, action, outcome, actor, subject)
    select ${companyId}, gen_random_uuid(), ${new Date(service.clock.now())}::timestamptz - n * interval '1 millisecond',
      'user_role', 'done', ${admin.userId}, (select user_id::text from users where company_id = ${companyId} limit 1)
    from generate_series(1, 5000) n`.execute(db)
  const browser = await openPage(origin)
  await browser.page.goto(`${origin}/sign-in`)
  await enter(browser.page, admin)
  await heading(browser.page, 'Developer settings')
  return { admin, ...browser }
}

async function expectNoSidewaysScroll(page: Page): Promise<void> {
  for (const width of [320, 390, 768, 1280]) {
    await page.setViewportSize({ width, height: 800 })
    const wide = await page.evaluate<number>('document.documentElement.scrollWidth')
    expect([page.url(), wide]).toEqual([page.url(), width])
  }
}

test('500 members are found, filtered and shown, and Back brings the same list again', async () => {
  const { page, expectClean } = await openLarge()
  await page.goto(`${origin}/members`)
  await say(page, '500 members, 50 shown')
  await expectNoSidewaysScroll(page)
  for (const _ of times(2, String)) await press(page, 'Show more')
  await say(page, '500 members, 150 shown')
  await expectNoSidewaysScroll(page)
  await page.getByLabel('Filter by role').selectOption('analyst')
  await page.getByLabel('Filter by status').selectOption('disabled')
  await say(page, /^1\d members match$/)
  const address = page.url()
  await page.getByRole('searchbox').fill('MEMBER30@')
  await expect.poll(() => page.url()).not.toBe(address)
  await page.getByRole('link', { name: 'Activity' }).click()
  await heading(page, 'Activity')
  await page.goBack()
  expect(await page.getByRole('searchbox').inputValue()).toBe('MEMBER30@')
  expect(await page.getByLabel('Filter by role').inputValue()).toBe('analyst')
  expectClean()
})

test('the first page of the activity takes at most three requests, and 5 000 entries are gone through', async () => {
  const { page, expectClean } = await openLarge()
  const asked: string[] = []
  page.on('request', (request) => {
    if (request.url().includes('/api/')) asked.push(request.url())
  })
  await page.goto(`${origin}/activity`)
  await page
    .getByRole('cell', { name: /changed the role of/ })
    .first()
    .waitFor()
  await page.waitForLoadState('networkidle')
  expect(asked.length).toBeLessThanOrEqual(3)
  const shown = await page.locator('tbody tr').count()
  await press(page, 'Show older')
  await expect.poll(() => page.locator('tbody tr').count()).toBeGreaterThan(shown)
  await expectNoSidewaysScroll(page)
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: /CSV/ }).click(),
  ])
  const lines = (await (await file.createReadStream()).toArray()).join('').trim().split('\r\n')
  expect(lines.length).toBeGreaterThan(5_000)
  expectClean()
})
