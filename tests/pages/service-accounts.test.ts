import { expect, test } from 'vitest'
import { go, openPages, press, submit } from '../support/browser.ts'

/** Service accounts in the pages: their passwords, and how one takes the place of another. */

const { service, openAdmin } = await openPages()

test("a service account's new password replaces the current one later or immediately", async () => {
  const { page } = await openAdmin()
  await go(page, 'Members')
  const section = page.getByRole('region', { name: 'Add a service account' })
  await submit(section, { Name: 'Billing worker' }, 'Add service account')
  const fresh = page.getByRole('region', { name: 'Password for Billing worker' })
  const shown = async () => {
    await fresh.waitFor()
    const texts = await fresh.locator('dd code').allTextContents()
    await press(page, "I've stored them")
    const [companyId = '', email = '', password = ''] = texts
    return { companyId, email, password }
  }
  const first = await shown()
  const statusOf = async (server: typeof first) => (await service.login(server)).status
  expect(await statusOf(first)).toBe(200)

  await press(page, 'Manage Billing worker')
  const passwords = page.getByRole('table', { name: 'Passwords' })
  await passwords.getByText(`gsp_…${first.password.slice(-4)}`).waitFor()
  const dialog = page.getByRole('dialog')
  const replace = async (stops: string) => {
    await press(page, 'Replace password for Billing worker')
    await dialog.getByLabel('The current password stops working').selectOption(stops)
    await press(dialog, 'Replace password')
  }
  await replace('in 24 hours')
  await fresh.getByText('The password before it works until').waitFor()
  const second = await shown()
  expect([await statusOf(first), await statusOf(second)]).toEqual([200, 200])
  // The newest comes first, and only the other one ends.
  const rows = passwords.locator('tbody tr')
  await expect.poll(() => rows.count()).toBe(2)
  const expiries = await rows.locator('td[data-label=Expires]').allTextContents()
  expect(expiries).toEqual(['never', expect.stringMatching(/\d/)])

  await replace('now')
  const third = await shown()
  await expect.poll(() => rows.count()).toBe(1)
  expect([await statusOf(first), await statusOf(second), await statusOf(third)]).toEqual([401, 401, 200])
})
