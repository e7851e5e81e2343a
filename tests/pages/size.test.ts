import { expect, test } from 'vitest'
import { go, heading, openPages, press, say, signIn, submit } from '../support/browser.ts'
import { addLargeCompany } from '../support/large-company.ts'

/** A large company: 500 members with long names, and 5 000 entries in the audit log. */

const { service, openPage } = await openPages()
const admin = await addLargeCompany(service)

test('500 members can be filtered, and Back shows the same list', async () => {
  const { page } = await openPage()
  await signIn(page, admin)
  await page.goto('/members')
  await say(page, '500 members, 50 shown')
  await press(page, 'Show more', 'Show more')
  await say(page, '500 members, 150 shown')
  await page.getByLabel('Filter by role').selectOption('analyst')
  await page.getByLabel('Filter by status').selectOption('disabled')
  await say(page, /^1\d members match$/)
  const address = page.url()
  await page.getByRole('searchbox').fill('MEMBER30@')
  await expect.poll(() => page.url()).not.toBe(address)
  await go(page, 'Activity')
  await heading(page, 'Activity')
  await page.goBack()
  expect(await page.getByRole('searchbox').inputValue()).toBe('MEMBER30@')
  expect(await page.getByLabel('Filter by role').inputValue()).toBe('analyst')
  await submit(page, { 'Email addresses': 'eve@large.example' }, 'Invite')
  await say(page, /The company can have at most \d+ members/)
  expect(await page.getByLabel('Email addresses').inputValue()).toBe('eve@large.example')
})

test('the activity page loads in three requests and exports all 5,000 entries', async () => {
  const { page } = await openPage()
  await signIn(page, admin)
  const asked: string[] = []
  page.on('request', (request) => {
    if (request.url().includes('/api/')) asked.push(request.url())
  })
  await page.goto('/activity')
  const change = page.getByRole('cell', { name: /changed the role of/ })
  await change.first().waitFor()
  await page.waitForLoadState('networkidle')
  expect(asked.length).toBeLessThanOrEqual(3)
  const shown = await page.locator('tbody tr').count()
  await press(page, 'Show older')
  await expect.poll(() => page.locator('tbody tr').count()).toBeGreaterThan(shown)
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: /CSV/ }).click(),
  ])
  const lines = (await (await file.createReadStream()).toArray()).join('').trim().split('\r\n')
  expect(lines.length).toBeGreaterThan(5_000)
})
