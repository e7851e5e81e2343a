import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { addDevice, go, heading, openPages, press, say, submit, type } from '../support/browser.ts'
import { PASSWORD } from '../support/test-service.ts'
import {
  begin,
  expectNoTraces,
  own,
  signInWithDevice,
  signOut,
  storeCodes,
  useFactors,
} from './factor-steps.ts'

const { service, mailbox, openPage } = await openPages()
const { addPasskey, addApp, giveCode, giveMailedCode, proveMailbox, requireFactors } = useFactors(service)

/** An admin on the account page, with a device that supports passkeys. */
async function openAccount({ hasOffers = false } = {}) {
  const admin = await service.addCompany()
  const { page, context } = await openPage({ acceptDownloads: true })
  const device = await signInWithDevice(page, admin, { hasOffers })
  await go(page, 'Account')
  return { admin, device, page, context }
}

async function recover(page: Page, code: string): Promise<void> {
  await press(page, 'Use a recovery code')
  await submit(page, { 'Recovery code': code }, 'Continue')
}

test('a passkey completes a sign-in, signs in directly, and is removed (ASVS 6.3.3, 6.5.6, 6.5.7)', async () => {
  const { admin, device, page } = await openAccount()
  const name = '<b>Ada’s</b> laptop'
  await proveMailbox(page)
  await press(page, 'Add a passkey')
  const first = page.getByRole('dialog', { name: 'Add a passkey' })
  expect(await first.getByLabel('Name').inputValue()).toBe('Chrome on Linux')
  await type(first.getByLabel('Name'), name)
  await press(page, 'Create passkey')
  await page.locator('h1:focus', { hasText: 'Store your recovery codes' }).waitFor()
  await say(page, "Second factor added. You're signed out everywhere else.")
  const codes = await storeCodes(page)
  await page.locator('h1:focus', { hasText: 'Your account' }).waitFor()
  expect(new Set(codes).size).toBe(10)
  await own(page).locator('dt', { hasText: name }).waitFor()
  expect(await device.passkeys()).toMatchObject([{ isResidentCredential: true, rpId: 'localhost' }])

  await signOut(page)
  await press(page, 'Sign in with a passkey')
  await heading(page, 'Developer settings')
  await go(page, 'Account')
  await own(page).getByText('last used').waitFor()

  await signOut(page)
  await page.locator('.chosen').waitFor()
  await begin(page, admin)
  await press(page, 'Use your passkey')
  await heading(page, 'Developer settings')
  await expectNoTraces(page, [...codes, PASSWORD])

  await go(page, 'Account')
  await press(own(page), `Remove… ${name}`)
  const removing = page.getByRole('dialog', { name: `Remove ${name}?` })
  await say(removing, 'It is your last second factor: a stolen password will be enough')
  await press(removing, `Remove ${name}`)
  await page.locator('.done:focus', { hasText: "Second factor removed. You're signed out" }).waitFor()
  await signOut(page)
  await press(page, 'Sign in with a passkey')
  await say(page, "This passkey wasn't accepted")
  await submit(page, { Email: admin.email, Password: PASSWORD }, 'Sign in')
  await heading(page, 'Developer settings')
})

test('a passkey that the browser offers at the email field signs in', async () => {
  const { admin, page } = await openAccount({ hasOffers: true })
  await addPasskey(page)
  // The device responds to an offer immediately, as if its user had chosen the passkey.
  const ready = Promise.withResolvers<void>()
  await page.route('**/login/passkey/options', async (route) => {
    await ready.promise
    await route.continue()
  })
  await signOut(page)
  ready.resolve()
  await heading(page, 'Developer settings')
  expect(await page.evaluate("localStorage.getItem('gatehouse.company')")).toContain(admin.companyId)
})

test('the offer of passkeys is renewed and yields to a button', async () => {
  const { page } = await openPage()
  await addDevice(page)
  let asked = 0
  page.on('request', (request) => {
    if (request.url().endsWith('/passkey/options')) asked += 1
  })
  await page.clock.install()
  await page.goto('/sign-in')
  await expect.poll(() => asked).toBe(1)
  await page.clock.fastForward('03:30')
  await page.clock.fastForward('00:40')
  await expect.poll(() => asked).toBe(2)
  // The button requests its own options. After that, the page offers passkeys again.
  await press(page, 'Sign in with a passkey')
  await say(page, 'No passkey was used.')
  await expect.poll(() => asked).toBe(4)
})

test("sign-in requires the app's code, or a recovery code once (ASVS 6.3.3, 6.5.1, 6.5.6)", async () => {
  const { admin, page } = await openAccount()
  await proveMailbox(page)
  await press(page, 'Add an app')
  await submit(page, { Code: '000000' }, 'Add the app')
  await say(page, 'Code is wrong.')
  await press(page, 'Cancel')
  const { secret, recoveryCodes } = await addApp(page)
  await own(page).getByText('10 left').waitFor()

  await signOut(page)
  await begin(page, admin)
  await page.locator('input[autocomplete=one-time-code][inputmode=numeric]:focus').waitFor()
  const code = await giveCode(page, secret)
  await heading(page, 'Developer settings')

  const [recoveryCode = ''] = recoveryCodes
  await signOut(page)
  await begin(page, admin)
  await recover(page, recoveryCode.toLowerCase())
  // The account page opens, because a recovery code was used.
  await heading(page, 'Your account')
  const banner = page.getByText('You used a recovery code: 9 left. If you lost your passkey or phone')
  await banner.waitFor()
  await press(page, 'Dismiss')
  await banner.waitFor({ state: 'detached' })
  await page.locator('h1:focus').waitFor()
  await signOut(page)
  await begin(page, admin)
  await recover(page, recoveryCode)
  await say(page, 'Recovery code is wrong or was already used.')
  await press(page, 'Back')
  await heading(page, 'Sign in')
  expect(await page.getByLabel('Email').inputValue()).toBe(admin.email)
  await expectNoTraces(page, [secret, code, ...recoveryCodes, PASSWORD])
})

test('codes work when passkeys are canceled or not supported', async () => {
  const { admin, device, page, context } = await openAccount()
  await device.refuse()
  await proveMailbox(page)
  await press(page, 'Add a passkey', 'Create passkey')
  await say(page, 'No passkey was created.')
  expect(await page.getByRole('alert').count()).toBe(0)
  await device.accept()
  // The emailed code expires, which the page finds out before the device creates a passkey.
  service.clock.advance(11 * 60)
  await press(page, 'Create passkey')
  await press(page, 'I already have a code')
  expect(await device.passkeys()).toHaveLength(0)
  await giveMailedCode(page)
  await storeCodes(page)
  expect(await device.passkeys()).toHaveLength(1)
  // The device now has a passkey.
  await press(page, 'Add a passkey', 'Create passkey')
  await say(page, 'This device already has a passkey for your account.')
  await press(page, 'Cancel')
  const { secret } = await addApp(page, { isFirst: false })

  await signOut(page)
  await device.refuse()
  await press(page, 'Sign in with a passkey')
  await say(page, 'No passkey was used.')
  await begin(page, admin)
  await press(page, 'Use your passkey')
  await say(page, 'No passkey was used.')
  expect(await page.getByRole('alert').count()).toBe(0)
  await press(page, 'Use an authenticator app')
  await giveCode(page, secret)
  await heading(page, 'Developer settings')

  // Without support for passkeys, the page requests codes, and explains why no passkey can be added.
  await signOut(page)
  await context.addInitScript('delete window.PublicKeyCredential')
  await page.reload()
  await begin(page, admin)
  expect(await page.getByRole('button', { name: /passkey/ }).count()).toBe(0)
  await giveCode(page, secret)
  await heading(page, 'Developer settings')
  await go(page, 'Account')
  await say(page, "This browser doesn't support passkeys")
  expect(await page.getByRole('button', { name: 'Add a passkey' }).count()).toBe(0)
})

test('five wrong codes or five minutes lead back to the password (ASVS 6.3.1, 6.5.5)', async () => {
  const { admin, page } = await openAccount()
  const { secret } = await addApp(page)
  await signOut(page)
  await begin(page, admin)
  for (const code of ['000001', '000002', '000003', '000004']) {
    await submit(page, { Code: code }, 'Continue')
    await page.locator('input[name=code][aria-invalid=true]:focus').waitFor()
  }
  await submit(page, { Code: '000005' }, 'Continue')
  await say(page, 'Too many wrong codes. Start again.')

  await page.clock.install()
  await begin(page, admin)
  await page.locator('input:focus').waitFor()
  // The page may not have started its timer yet.
  const waitInVain = async () => {
    await page.clock.fastForward('05:01')
    return await page.getByText('This step timed out. Start again.').count()
  }
  await expect.poll(waitInVain).toBe(1)
  await begin(page, admin)
  await giveCode(page, secret)
  await heading(page, 'Developer settings')
})

test('new recovery codes survive a closed dialog and a stricter policy, and are downloaded', async () => {
  const { admin, page } = await openAccount()
  const { recoveryCodes } = await addApp(page)
  const [sent, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  await page.route('**/recovery-codes', async (route) => {
    const response = await route.fetch()
    sent.resolve()
    await gate.promise
    await route.fulfill({ response })
  })
  await press(page, 'Replace… recovery codes', 'Replace recovery codes')
  await sent.promise
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await go(page, 'Developer')
  await say(page, 'Your recovery codes are about to appear, and only once.')
  await press(page, 'Stay')
  // The company requires a second factor, which the session did not use.
  await requireFactors(admin)
  const sessions = service.db.updateTable('sessions').where('user_id', '=', admin.userId)
  await sessions.set({ amr: ['pwd'] }).execute()
  await press(page, 'Change name', 'Save name')
  await page.locator('dialog[open] [role=alert]').waitFor()
  gate.resolve()
  await page.locator('.codes').waitFor()
  await say(page, 'The codes that you stored before no longer work.')
  const renewed = await page.locator('.codes code').allTextContents()
  expect(renewed).not.toEqual(expect.arrayContaining(recoveryCodes.slice(0, 1)))
  const [file] = await Promise.all([page.waitForEvent('download'), press(page, 'Download')])
  expect(file.suggestedFilename()).toBe('recovery-codes.txt')
  const text = (await (await file.createReadStream()).toArray()).join('')
  for (const name of [admin.email, `(${await service.handleOf(admin)})`]) expect(text).toContain(name)
  for (const code of renewed) expect(text).toContain(code)
  await press(page, "I've stored them")
  await heading(page, 'Your company requires a second factor')
  expect(await page.content()).not.toContain(renewed[0])
})

test('a late change requires password and second factor, or only a passkey (ASVS 7.5.1)', async () => {
  const { page } = await openAccount()
  const { secret } = await addApp(page)
  const dialog = page.getByRole('dialog', { name: "Confirm it's you" })
  const change = async (newEmail: string) => {
    service.clock.advance(16 * 60)
    await press(page, 'Change email')
    await submit(page, { 'New email': newEmail }, 'Email me a link')
  }

  await change('first@company.example')
  await dialog.locator('input[name=password]:focus').waitFor()
  await page.keyboard.type(PASSWORD)
  await page.keyboard.press('Enter')
  await dialog.locator('input[name=code]:focus').waitFor()
  await page.keyboard.type('000000')
  await page.keyboard.press('Enter')
  await say(page, 'Code is wrong or was already used.')
  await giveCode(page, secret)
  await mailbox.mailTo('first@company.example')

  await press(page, 'Add a passkey', 'Create passkey')
  await page.locator('.done:focus', { hasText: 'Second factor added.' }).waitFor()
  await change('second@company.example')
  await press(dialog, 'Use a passkey')
  await mailbox.mailTo('second@company.example')
  expect(await dialog.isVisible()).toBe(false)
  await expectNoTraces(page, [secret, PASSWORD])
})

test('the QR code of a company with a long name has modules of 3 px', async () => {
  const admin = await service.addCompany({ name: 'Zürcher Händler '.repeat(6).slice(0, 100) })
  const { page } = await openPage()
  await signInWithDevice(page, admin)
  await go(page, 'Account')
  await proveMailbox(page)
  await press(page, 'Add an app')
  const code = page.getByRole('img', { name: /QR code/ })
  await code.waitFor()
  const { width = 0 } = (await code.boundingBox()) ?? {}
  const [, , modules = 0] = ((await code.getAttribute('viewBox')) ?? '').split(' ').map(Number)
  // Fewer would get more than 3 px from the smallest width of a code.
  expect(modules).toBeGreaterThan(75)
  expect(width / modules).toBeCloseTo(3, 2)
})
