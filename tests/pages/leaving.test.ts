import { expect, test } from 'vitest'
import { addDevice, go, heading, openPages, press, say, submit } from '../support/browser.ts'
import { useFactors } from './factor-steps.ts'

/** A single click must not lose what is shown only once. */

const { service, openAdmin } = await openPages()
const { proveMailbox } = useFactors(service)

test('leaving an unused secret, new password, or recovery codes requires confirmation', async () => {
  const { admin, page } = await openAdmin()
  await addDevice(page)
  const dialog = page.getByRole('dialog', { name: 'Leave this page?' })
  await go(page, 'Account')
  await heading(page, 'Your account')
  await go(page, 'Developer')
  await press(page, 'Create signing secret')
  const secret = (await page.locator('.secret code').textContent()) ?? ''

  const staying = async () => {
    await dialog.getByText("Your new signing secret won't be shown again.").waitFor()
    await press(dialog, 'Stay')
    await dialog.waitFor({ state: 'detached' })
    await heading(page, 'Developer settings')
    expect(new URL(page.url()).pathname).toBe('/developer')
    expect(await page.locator('.secret code').textContent()).toBe(secret)
  }
  await go(page, 'Members')
  await staying()
  await page.goBack()
  await staying()
  await press(page, 'Sign out')
  await staying()
  await page.goBack()
  await press(dialog, 'Leave')
  await heading(page, 'Your account')
  expect(await page.content()).not.toContain(secret)

  await go(page, 'Developer')
  const setup = page.getByRole('region', { name: 'Finish your setup' })
  await say(setup, '1 of 4 done')
  await setup.getByRole('link', { name: 'Invite a second person' }).waitFor()
  // Esc closes the dialog, but the request is already on its way.
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  await page.route('**/webhook-secret/regenerate', async (route) => {
    await released
    await route.continue()
  })
  await press(page, 'Replace secret…')
  await submit(page, { 'Company name': 'Acme' }, 'Replace secret')
  await page.getByRole('button', { name: 'One moment…' }).waitFor()
  await page.keyboard.press('Escape')
  await go(page, 'Members')
  await dialog.getByText("you'll never see it").waitFor()
  await press(dialog, 'Stay')
  release()
  await page.locator('.done:focus', { hasText: 'Secret created.' }).waitFor()
  const next = (await page.locator('.secret code').textContent()) ?? ''
  await service.send(admin.companyId, next, { type: 'a.b', data: {} })
  await say(page, 'Last event received')

  await go(page, 'Members')
  const gate = Promise.withResolvers<void>()
  await page.route('**/auth/members', async (route) => {
    if (route.request().method() === 'POST') await gate.promise
    await route.continue()
  })
  await press(page, 'Add service account')
  await submit(page.getByRole('dialog'), { Name: 'Billing worker' }, 'Add')
  await page.keyboard.press('Escape')
  await page.getByRole('link', { name: 'Invitations 0' }).click()
  await go(page, 'Account')
  await dialog.getByText('A new password is on its way').waitFor()
  await press(dialog, 'Stay')
  const other = await service.addUser(admin, 'admin')
  const { accessToken: token } = await service.loginAs(other)
  gate.resolve()
  await page.getByRole('region', { name: 'Password for Billing worker' }).waitFor()
  await go(page, 'Account')
  await dialog.getByText('The password for Billing worker is shown only once.').waitFor()
  await press(dialog, 'Stay')
  // Even losing the right to view the page does not lose the password.
  const change = { method: 'PATCH', token, json: { role: 'viewer' } }
  expect((await service.call(`/auth/members/${admin.userId}`, change)).status).toBe(200)
  await page.getByRole('link', { name: /^Members \d/ }).click()
  await expect.poll(() => page.getByRole('link', { name: 'Activity' }).count()).toBe(0)
  await press(page, "I've stored them")
  await heading(page, "You can't view this page")
  const users = service.db.updateTable('users').where('user_id', '=', admin.userId)
  await users.set({ role: 'admin' }).execute()
  await page.reload()
  await go(page, 'Account')
  await proveMailbox(page)
  await press(page, 'Add a passkey', 'Create passkey')
  await page.locator('.codes').waitFor()
  await go(page, 'Developer')
  await dialog.getByText("Your recovery codes won't be shown again.").waitFor()
  await press(dialog, 'Stay')
  // For links out of the application, the browser itself asks.
  const asked: string[] = []
  page.on('dialog', async (own) => {
    asked.push(own.type())
    await own.accept()
  })
  await page.reload()
  await heading(page, 'Your account')
  expect(asked).toEqual(['beforeunload'])

  await go(page, 'Developer')
  await page
    .getByRole('listitem')
    .filter({ hasText: 'Billing worker' })
    .getByText('Last used: never')
    .waitFor()
  expect(await setup.count()).toBe(0)
})
