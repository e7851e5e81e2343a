import { expect, test } from 'vitest'
import { go, heading, openPages, press, say, signIn, submit } from '../support/browser.ts'
import { addLargeCompany } from '../support/large-company.ts'

/** A large company: 500 members with long names, and 5,000 entries in the audit log. */

const { service, openPage } = await openPages()
const admin = await addLargeCompany(service)

test('a large company filters members, goes Back, and exports 5,000 activity entries', async () => {
  const { page } = await openPage()
  await signIn(page, admin)
  await page.goto('/members')
  await say(page, '500 members, 50 shown')
  await page.locator('search').getByLabel('Role').selectOption('analyst')
  await page.locator('search').getByLabel('Status').selectOption('disabled')
  await say(page, /^1\d members match$/)
  const address = page.url()
  await go(page, 'Clear filters')
  await page.locator('input[type=search]:focus').waitFor()
  await page.goBack()
  await say(page, /^1\d members match$/)
  await page.getByRole('searchbox').fill('MEMBER30@')
  await expect.poll(() => page.url()).not.toBe(address)
  await page.waitForLoadState('networkidle')

  const asked: string[] = []
  page.on('request', (request) => {
    if (request.url().includes('/api/')) asked.push(request.url())
  })
  await go(page, 'Activity')
  await page
    .getByRole('cell', { name: /changed the role of/ })
    .first()
    .waitFor()
  await page.waitForLoadState('networkidle')
  expect(asked.length).toBeLessThanOrEqual(2)
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: /CSV/ }).click()
  const file = await download
  const lines = (await (await file.createReadStream()).toArray()).join('').trim().split('\r\n')
  expect(lines.length).toBeGreaterThan(5_000)
  expect(file.suggestedFilename()).toMatch(/^audit-[\w-]+-\d{4}-\d\d-\d\d\.csv$/)

  await page.goBack()
  expect(await page.getByRole('searchbox').inputValue()).toBe('MEMBER30@')
  expect(await page.locator('search').getByLabel('Role').inputValue()).toBe('analyst')
  await press(page, 'Invite people')
  await submit(page.getByRole('dialog'), { 'Email addresses': 'eve@large.example' }, 'Invite')
  await say(page.getByRole('dialog'), /The company can have at most \d+ members/)
  expect(await page.getByLabel('Email addresses').inputValue()).toBe('eve@large.example')
})

test('Back restores the rows of a list and the place in it', async () => {
  const { page } = await openPage()
  await signIn(page, admin)
  const rows = page.locator('.list-row')
  const lists = [
    { name: 'Members', other: 'Activity', more: 'Show more', size: 50, last: 10 },
    { name: 'Activity', other: 'Members', more: 'Show older', size: 100, last: 3 },
  ]
  for (const { name, other, more, size, last } of lists) {
    await go(page, name)
    for (const shown of [size, 2 * size]) {
      await expect.poll(() => rows.count()).toBe(shown)
      await press(page, more)
    }
    await expect.poll(() => rows.count()).toBe(3 * size)
    await expect.poll(() => page.url()).toContain('shown=3')
    // Long lists are drawn in steps.
    await page.goto(page.url().replace('shown=3', `shown=${last}`))
    await expect.poll(() => rows.count()).toBe(last * size)
    const row = rows.nth((last - 0.5) * size)
    await row.scrollIntoViewIfNeeded()
    const place = async () => Math.round((await row.boundingBox())?.y ?? 0)
    const before = await place()
    expect(await page.evaluate('scrollY')).toBeGreaterThan(1_000)
    // A click would scroll to the link first.
    await page.getByRole('link', { name: other, exact: true }).dispatchEvent('click')
    await heading(page, other)
    await page.goBack()
    await heading(page, name)
    await expect.poll(place).toBe(before)
    await expect.poll(() => rows.count()).toBe(last * size)
  }
  // The last page removes the button, and its first row takes the focus.
  const ends = { '/members?shown=9': 451, '/activity?action=user_role&shown=49': 4_901 }
  for (const [path, first] of Object.entries(ends)) {
    await page.goto(path)
    await expect.poll(() => rows.count()).toBe(first - 1)
    await page.getByRole('button', { name: /^Show/ }).click()
    await rows
      .nth(first - 1)
      .and(page.locator(':focus'))
      .waitFor()
  }
})
