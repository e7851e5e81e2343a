import { expect, test } from 'vitest'
import { enter, go, heading, openPages, press, say, type } from '../support/browser.ts'
import { codeAt } from '../support/second-factors.ts'
import { useFactors } from './factor-steps.ts'

/** Nothing that is shown once is lost by one click. */

const { origin, service, openPage } = await openPages()
const { proveMailbox } = useFactors(service)

async function openSignedIn() {
  const admin = await service.addCompany()
  const browser = await openPage(origin)
  await browser.page.goto(`${origin}/sign-in`)
  await enter(browser.page, admin)
  await heading(browser.page, 'Developer settings')
  const dialog = browser.page.getByRole('dialog', { name: 'Leave this page?' })
  return { admin, dialog, ...browser }
}

test('a fresh secret asks before a link, Back or a sign-out leaves it, and nothing asks once it is used', async () => {
  const { admin, dialog, page, expectClean } = await openSignedIn()
  await go(page, 'Account')
  await heading(page, 'Your account')
  await go(page, 'Developer')
  await press(page, 'Create signing secret')
  const secret = (await page.locator('.secret code').textContent()) ?? ''

  const staying = async () => {
    await dialog.getByText('Your new signing secret is not shown again.').waitFor()
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
  await press(page, 'Replace secret…')
  const name = (await page.locator('.company').textContent()) ?? ''
  await type(page.getByLabel('Name of the company'), name)
  await press(page, 'Replace secret')
  const next = (await page.locator('.secret code').textContent()) ?? ''
  await service.send(admin.companyId, next, { type: 'a.b', data: {} })
  await say(page, 'First event received.')
  await go(page, 'Members')
  await heading(page, 'Members')
  expectClean()
})

test('recovery codes and the password of a service account ask, in the browser too', async () => {
  const { dialog, page, expectClean } = await openSignedIn()
  await go(page, 'Members')
  const section = page.getByRole('region', { name: 'Add a service account' })
  await section.getByLabel('Name').fill('Billing worker')
  await press(section, 'Add service account')
  await page.getByRole('region', { name: 'Password for Billing worker' }).waitFor()
  await go(page, 'Account')
  await dialog.getByText('The password for Billing worker is shown only once.').waitFor()
  await press(dialog, 'Stay')
  await press(page, "I've stored them")
  await go(page, 'Account')
  await proveMailbox(page)
  await press(page, 'Add an app')
  const shown = (await page.locator('.secret code').textContent()) ?? ''
  await type(page.getByLabel('Code', { exact: true }), codeAt(shown.replaceAll(' ', ''), service.clock.now()))
  await press(page, 'Add the app')
  await page.locator('.codes').waitFor()
  await go(page, 'Developer')
  await dialog.getByText('Your recovery codes are not shown again.').waitFor()
  await press(dialog, 'Stay')
  // What leaves the application, the browser itself asks about.
  const asked: string[] = []
  page.on('dialog', async (own) => {
    asked.push(own.type())
    await own.accept()
  })
  await page.reload()
  await heading(page, 'Your account')
  expect(asked).toEqual(['beforeunload'])
  expectClean()
})
