import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { go, heading, openPages, say, signIn, tracesIn } from '../support/browser.ts'
import { NEW_PASSWORD, PASSWORD } from '../support/test-service.ts'

/** Uses every kind of dialog by keyboard only, because clicks would move the focus. */

const { service, openPage } = await openPages()

/** Opens a dialog with Enter on a button, and waits until the right element has the focus. */
async function openDialog(page: Page, button: string, focused: string): Promise<void> {
  await page.getByRole('button', { name: button, exact: true }).focus()
  await page.keyboard.press('Enter')
  await page.locator('dialog[open]').locator(focused).and(page.locator(':focus')).waitFor()
}

/** The dialog is gone, and its button has the focus again. */
async function expectClosed(page: Page, button: string): Promise<void> {
  await page.locator('dialog').waitFor({ state: 'detached' })
  await page.getByRole('button', { name: button, exact: true }).and(page.locator(':focus')).waitFor()
}

/** The dialog is gone, and the result has the focus. */
async function expectSaid(page: Page, text: string): Promise<void> {
  await page.locator('dialog').waitFor({ state: 'detached' })
  await page.locator('.done:focus', { hasText: text }).waitFor()
}

const PASSWORD_FIELD = 'input[name=password]'
const CANCEL = 'button:text-is("Cancel")'

test('late changes and all dialogs work by keyboard with correct focus (ASVS 7.5.1, 14.3.3)', async () => {
  const admin = await service.addCompany({ name: 'Acme' })
  const colleague = await service.addUser(admin)
  const { page } = await openPage()
  const { keyboard } = page
  await signIn(page, admin)
  service.clock.advance(16 * 60)

  await openDialog(page, 'Create signing secret', PASSWORD_FIELD)
  await keyboard.press('Escape')
  await say(page, 'Nothing was changed.')
  await openDialog(page, 'Create signing secret', PASSWORD_FIELD)
  await keyboard.type('not the password')
  await keyboard.press('Enter')
  await page.locator('dialog[open] [aria-invalid=true]:focus').waitFor()
  await keyboard.press('ControlOrMeta+A')
  await keyboard.type(PASSWORD)
  await keyboard.press('Enter')
  await say(page, 'Your new secret, version 1.')

  await openDialog(page, 'Sign out', 'button:text-is("Stay")')
  await keyboard.press('Escape')
  await expectClosed(page, 'Sign out')

  // A dialog that opened over this one returns the focus to it.
  service.clock.advance(16 * 60)
  await openDialog(page, 'Replace secret…', 'input[name=companyName]')
  await keyboard.type('Acme')
  await keyboard.press('Enter')
  await page.locator(`dialog[open] ${PASSWORD_FIELD}:focus`).waitFor()
  expect(await page.locator('dialog[open]').count()).toBe(1)
  await keyboard.press('Escape')
  await page.locator('dialog[open] [role=alert]:focus', { hasText: 'Nothing was changed' }).waitFor()
  expect(await page.locator('dialog[open]').count()).toBe(1)
  await keyboard.press('Tab')
  await page.locator('dialog[open] input[name=companyName]:focus').waitFor()
  await keyboard.press('Enter')
  await page.locator(`dialog[open] ${PASSWORD_FIELD}:focus`).waitFor()
  await keyboard.type(PASSWORD)
  await keyboard.press('Enter')
  await say(page, 'Your new secret, version 2.')
  await page.locator('dialog').waitFor({ state: 'detached' })
  await page.locator('.done:focus', { hasText: 'Secret created.' }).waitFor()

  await page.locator('nav').getByRole('link', { name: 'Members' }).focus()
  await keyboard.press('Enter')
  await page.locator('dialog[open] button:text-is("Stay"):focus').waitFor()
  await keyboard.press('Shift+Tab')
  await keyboard.press('Enter')
  await heading(page, 'Members')
  await page.getByRole('button', { name: `Manage ${colleague.email}` }).press('Enter')
  await page.getByRole('button', { name: 'Save changes' }).press('Enter')
  await expectSaid(page, 'No changes to save.')
  await openDialog(page, `Disable ${colleague.email}`, CANCEL)
  await keyboard.press('Enter')
  await expectClosed(page, `Disable ${colleague.email}`)
  await openDialog(page, `Disable ${colleague.email}`, CANCEL)
  await keyboard.press('Shift+Tab')
  await keyboard.press('Enter')
  await page.locator('.list-row', { hasText: colleague.email }).getByText('disabled').waitFor()
  await page.locator('.done:focus', { hasText: 'Disabled. All sessions have ended.' }).waitFor()
  expect(await page.getByText('No changes to save.').count()).toBe(0)
  await page.getByRole('button', { name: `Enable ${colleague.email}` }).press('Enter')
  await page.locator('.done:focus', { hasText: 'Enabled.' }).waitFor()
  await page.getByRole('button', { name: 'Save changes' }).press('Enter')
  await expectSaid(page, 'No changes to save.')
  expect(await page.getByText('Enabled.').count()).toBe(0)

  await go(page, 'Account')
  await openDialog(page, 'Change password', 'input[name=currentPassword]')
  await keyboard.type('not the password')
  for (const key of ['Tab', 'Tab']) await keyboard.press(key)
  await keyboard.type(NEW_PASSWORD)
  await keyboard.press('Enter')
  await page.locator('input[name=currentPassword][aria-invalid=true]:focus').waitFor()
  await keyboard.press('ControlOrMeta+A')
  await keyboard.type(PASSWORD)
  await keyboard.press('Enter')
  await expectSaid(page, "Password changed. You're signed out everywhere else.")

  await go(page, 'Company')
  await openDialog(page, 'Change handle', 'input[name=handle]')
  await keyboard.press('Escape')
  await expectClosed(page, 'Change handle')
  await openDialog(page, 'Change name', 'input[name=name]')
  await keyboard.press('Enter')
  await expectSaid(page, 'Name saved.')
  await openDialog(page, 'End all… sessions', CANCEL)
  await keyboard.press('Shift+Tab')
  await keyboard.press('Enter')
  await expectSaid(page, 'All other sessions have ended.')
  await openDialog(page, 'Change two-factor policy', 'input[value=optional]')
  await keyboard.press('ArrowDown')
  await keyboard.press('Escape')
  await expectClosed(page, 'Change two-factor policy')
  await openDialog(page, 'Change two-factor policy', 'input[value=optional]')
  await keyboard.press('ArrowDown')
  await keyboard.press('Enter')
  await expectSaid(page, 'Saved. It takes effect immediately')
  for (const secret of [PASSWORD, NEW_PASSWORD]) expect(await tracesIn(page)).not.toContain(secret)
})
