import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { go, openPages, say, signIn, translate } from '../support/browser.ts'

/** The activity page: its filters, its time zone, and its links. */

const { service, openPage } = await openPages()

test('activity is filtered by people and by days of the browser, in English, also when translated', async () => {
  const admin = await service.addCompany({ adminName: 'Ada' })
  const member = await service.addUser(admin)
  await service.loginAs(member)
  await service.login({ ...member, password: 'wrong' })
  const { accessToken: token } = await service.loginAs(admin)
  const guest = await service.call('/auth/invitations', {
    token,
    json: { email: 'gone@x.example', role: 'viewer' },
  })
  expect(guest.status).toBe(201)
  await sql`update audit_addresses set email = null where email = 'gone@x.example'`.execute(service.db)
  const added = await service.call('/auth/members', { token, json: { name: 'worker', role: 'viewer' } })
  const json = { previousValidSeconds: 3_600 }
  await service.call(`/auth/members/${added.body.id}/password`, { token, json })
  const { page } = await openPage({ timezoneId: 'America/New_York', locale: 'de-DE' })
  await translate(page)
  await page.clock.install()
  const asked: URLSearchParams[] = []
  page.on('request', (request) => {
    const { pathname, searchParams } = new URL(request.url())
    if (pathname === '/api/auth/audit') asked.push(searchParams)
  })
  await signIn(page, admin)
  // A link to a person who has no entries on the page.
  await page.goto(`/activity?actor=${member.userId}&day=2026-11-01`)
  const by = page.getByLabel('By', { exact: true })
  await expect.poll(() => by.inputValue()).toBe(member.email)
  await say(page, 'No events match.')
  // The bar of a day in UTC, in local time with the clock of the region.
  await say(page, /Only 31 Oct 2026, 20:00 to 1 Nov 2026, 19:00\./)
  const { from, to } = Object.fromEntries(asked.at(-1) ?? [])
  expect([from, to]).toEqual(['2026-11-01T00:00:00.000Z', '2026-11-02T00:00:00.000Z'])
  // Clocks were set back on this day.
  await page.getByLabel('From').fill('2026-11-01')
  await page.getByLabel('To').fill('2026-11-01')
  await expect.poll(() => asked.at(-1)?.get('to')).toBe('2026-11-02T05:00:00.000Z')
  expect(asked.at(-1)?.get('from')).toBe('2026-11-01T04:00:00.000Z')

  await go(page, 'Clear filters')
  await by.and(page.locator(':focus')).waitFor()
  const who = page.locator('td.trail-who')
  await page.getByRole('cell', { name: 'signed in' }).first().waitFor()
  await page.getByRole('cell', { name: 'invited someone whose email was deleted' }).waitFor()
  const replaced = page.getByRole('cell', { name: 'replaced the password of worker' })
  await replaced.getByText(/^the previous one works until \d+ \w+ \d{4}, \d\d:\d\d$/).waitFor()
  await by.fill('nobody')
  await by.press('Enter')
  await say(page, 'Choose someone from the list.')
  // Only operators are left, so that the next names are those of the next search.
  await expect.poll(() => page.locator('datalist option').count()).toBe(1)
  await by.fill(member.email.toUpperCase())
  await page.locator('datalist option').nth(1).waitFor({ state: 'attached' })
  await by.press('Enter')
  await expect.poll(async () => new Set(await who.allInnerTexts())).toEqual(new Set([member.email]))
  expect(page.url()).toContain(`actor=${member.userId}`)

  // Refused sign-ins have no actor.
  await by.fill('')
  await page.getByLabel('Outcome').selectOption('refused')
  const about = page.getByLabel('About')
  await about.fill(member.email)
  await page.locator('datalist').nth(1).locator('option').first().waitFor({ state: 'attached' })
  await about.press('Enter')
  await page.getByRole('cell', { name: `tried to sign in as ${member.email} and was refused` }).waitFor()
  expect(await who.allInnerTexts()).toEqual(['Someone'])
  expect(page.url()).toContain(`subject=${member.userId}`)
  await about.fill('bob@else.example')
  await about.press('Enter')
  await say(page, 'No events match.')
  await expect.poll(() => asked.at(-1)?.get('subject')).toBe('bob@else.example')
  await go(page, 'Clear filters')
  await page.getByLabel('What').selectOption({ label: 'added' })
  await page.getByRole('cell', { name: `added ${member.email}` }).waitFor()

  const time = page.locator('td time').first()
  expect(await time.innerText()).toMatch(/^(?:just now|1 minute ago)$/)
  expect(await time.getAttribute('title')).toMatch(/^\d+ \w+ \d{4}, \d\d:\d\d:\d\d GMT-\d$/)
  await page.clock.fastForward('02:00:00')
  await expect.poll(() => time.innerText()).toBe('2 hours ago')
  await page.emulateMedia({ media: 'print' })
  expect([await by.isVisible(), await who.first().isVisible()]).toEqual([false, true])
  await page.emulateMedia({ media: null })
  await page.goto('/developer')
  const copy = page.getByRole('button', { name: /^Copy / }).first()
  await copy.waitFor()
  await copy.click()
  await expect.poll(() => copy.innerText()).toMatch(/^(?:Copied|Couldn't copy)/)
})
