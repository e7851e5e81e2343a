import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { enter, fill, go, heading, openPages, press, say, tracesIn, type } from '../support/browser.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { PASSWORD } from '../support/test-service.ts'

/** How people look after themselves on the pages, in real browsers. */

const { origin, service, mailbox, openPage, openMailed, codeTo } = await openPages()

async function invite(page: Page, email: string): Promise<void> {
  await page.getByRole('region', { name: 'Invite people' }).getByLabel('Email addresses').fill(email)
  await press(page, 'Invite')
}

/** A company with an admin who is signed in, and remembers the company. */
async function openSignedIn() {
  const admin = await service.addCompany()
  const browser = await openPage(origin)
  const { page } = browser
  await page.goto(`${origin}/sign-in`)
  await page.getByLabel('Remember the company on this device').check()
  await enter(page, admin)
  await heading(page, 'Developer settings')
  return { admin, ...browser }
}

test('a forgotten password is replaced by a mailed link, and who used the old one is told and goes on where they were (ASVS 6.4.3, 7.4.3)', async () => {
  const { admin, page, expectClean } = await openSignedIn()
  await go(page, 'Account')
  await heading(page, 'Your account')

  const other = await openPage(origin)
  await other.page.goto(`${origin}/sign-in`)
  await go(other.page, 'Forgot your password?')
  await fill(other.page, { Company: 'nobody-1234', Email: admin.email })
  await press(other.page, 'Email me a link')
  // Whether there is such an account is not told, so what was typed can be seen and changed.
  await say(other.page, `If ${admin.email} has an account at nobody-1234, we've emailed it a link`)
  await press(other.page, 'Change the company or email')
  expect(await other.page.getByLabel('Email', { exact: true }).inputValue()).toBe(admin.email)
  await fill(other.page, { Company: admin.companyId })
  await press(other.page, 'Email me a link')
  const { token } = await openMailed(other.page, admin.email)
  await heading(other.page, 'Choose a new password')
  await other.page.locator('input[name=newPassword]:focus').waitFor()
  const password = 'another correct horse'
  await fill(other.page, { 'New password': password })
  await press(other.page, 'Change password')
  // With the password that was typed just now.
  await heading(other.page, 'Developer settings')
  for (const secret of [token, password]) expect(await tracesIn(other.page)).not.toContain(secret)
  // The link works once, and says so before a password is typed.
  await other.page.goto(`${origin}/reset-password#token=${token}`)
  await say(other.page, 'This link has expired, was already used, or was replaced by a newer email.')
  expect(await other.page.getByLabel('New password').count()).toBe(0)

  await press(page, 'Save name')
  await say(page, 'Your password was reset. Sign in with the new one.')
  // The company is known.
  await page.locator('input[name=email]:focus').waitFor()
  await fill(page, { Email: admin.email, Password: PASSWORD })
  await press(page, 'Sign in')
  await page.locator('.error').first().waitFor()
  await fill(page, { Email: admin.email, Password: password })
  await press(page, 'Sign in')
  await heading(page, 'Your account')
  expectClean()
  other.expectClean()
})

test('a changed address waits for its mailed link, and then signs in (ASVS 6.3.7)', async () => {
  const { admin, page, expectClean } = await openSignedIn()
  await go(page, 'Account')
  const newEmail = 'renamed@company.example'
  await fill(page, { 'New email': newEmail })
  await press(page, 'Email me a link')
  // Without a second factor, the old address decides.
  const section = page.getByRole('region', { name: 'Email' })
  const code = section.getByLabel('Code from the email')
  await press(section, 'Email me a code')
  await type(code, '00000000')
  await press(section, 'Continue')
  await section.getByText('is wrong, used or expired').waitFor()
  // As an input method for full-width characters writes it.
  const digits = [...(await codeTo(admin.email))].map((digit) => String.fromCodePoint(0xff10 + Number(digit)))
  await type(code, digits.toSpliced(4, 0, '－').join(''))
  await press(section, 'Continue')
  await say(page, 'Nothing changes until you open it.')
  // And is told.
  await mailbox.mailTo(admin.email, 'Another email address')

  // Where a focus would open a keyboard, none is given.
  const phone = await openPage(origin, { hasTouch: true, isMobile: true })
  await phone.page.goto(`${origin}/sign-in`)
  await phone.page.locator('h1:focus').waitFor()
  const { token } = await openMailed(phone.page, newEmail)
  await heading(phone.page, 'Confirm your new email')
  await press(phone.page, 'Use this email')
  await heading(phone.page, 'Your email is changed')
  expect(await tracesIn(phone.page)).not.toContain(token)
  await page.reload()
  await page.getByText(`You sign in with ${newEmail}`).waitFor()
  await press(page, 'Sign out')
  await heading(page, 'Sign in')
  await fill(page, { Email: newEmail, Password: PASSWORD })
  await press(page, 'Sign in')
  await heading(page, 'Developer settings')
  expectClean()
  phone.expectClean()
})

test('who did not ask for another address takes the account back by the link in the mail that told of it (ASVS 6.3.7, 14.2.1)', async () => {
  const { admin, expectClean } = await openSignedIn()
  const { accessToken: token } = await service.loginAs(admin)
  const newEmail = 'taken@elsewhere.example'
  const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
  await service.call('/auth/email/change', { token, json: { newEmail, mailCode } })
  const { token: link } = await mailbox.mailTo(newEmail)
  await service.call('/auth/email/confirm', { json: { token: link } })
  await service.call('/auth/members', { token, json: { name: 'worker', role: 'viewer' } })

  const phone = await openPage(origin)
  const { token: undo } = await openMailed(phone.page, admin.email)
  await heading(phone.page, 'Undo a change?')
  await phone.page.getByText(admin.email).waitFor()
  await phone.page.getByText(/^Company \d+$/).waitFor()
  expect(await tracesIn(phone.page)).not.toContain(undo)
  // Loaded again, the page still says whose account it is.
  await phone.page.reload()
  await phone.page.getByText(admin.email).waitFor()
  await phone.page.goto('about:blank')
  await phone.page.goto(`${origin}/undo#token=${undo}`)
  await press(phone.page, 'Undo the change')
  await heading(phone.page, 'The change is undone')
  await say(phone.page, /Service account worker \(worker-\d{4}@service\.invalid\)/)
  await openMailed(phone.page, admin.email)
  await heading(phone.page, 'Choose a new password')
  const password = 'another correct horse'
  await fill(phone.page, { 'New password': password })
  await press(phone.page, 'Change password')
  await heading(phone.page, 'Developer settings')
  expect((await service.login({ ...admin, password })).status).toBe(200)
  // The link works once, and asks first, since somebody is signed in.
  await phone.page.goto(`${origin}/undo#token=${undo}`)
  await press(phone.page, 'Continue with the link')
  await press(phone.page, 'Undo the change')
  await say(phone.page, 'This link has expired, was already used, or was replaced by a newer email.')
  expectClean()
  phone.expectClean()
})

test('a session that is ended from another one says so at its next click, and another is none of its business (ASVS 7.4.5, 7.5.2)', async () => {
  const { admin, page, expectClean } = await openSignedIn()
  const agent = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'
  const other = await openPage(origin, { userAgent: agent })
  await other.page.goto(`${origin}/members`)
  await heading(other.page, 'Sign in')
  await enter(other.page, admin)
  // It was asked for before.
  await heading(other.page, 'Members')

  await go(page, 'Account')
  const row = page.getByRole('listitem').filter({ hasText: 'Firefox on Linux' })
  await row.getByRole('button', { name: /^End/ }).click()
  await row.waitFor({ state: 'detached' })
  await invite(other.page, 'bob@company.example')
  await say(
    other.page,
    'This session was ended from another one of yours, or your second factors changed there.',
  )
  await enter(other.page, admin)
  await heading(other.page, 'Members')
  expectClean()
  other.expectClean()
})

test('a change long after the sign-in asks for the password in a dialog, and goes on (ASVS 7.5.1)', async () => {
  const { page, expectClean } = await openSignedIn()
  await go(page, 'Members')
  service.clock.advance(16 * 60)
  await invite(page, 'late@company.example')
  const dialog = page.getByRole('dialog', { name: "Confirm it's you" })
  await type(dialog.getByLabel('Password'), 'not the password')
  await press(dialog, 'Continue')
  await dialog.locator('[aria-invalid=true]').waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  await say(page, 'Nothing was changed')

  await press(page, 'Invite')
  await type(dialog.getByLabel('Password'), PASSWORD)
  await page.keyboard.press('Enter')
  await say(page, 'An invitation is on its way to late@company.example.')
  await mailbox.mailTo('late@company.example')
  // Fifteen minutes are free again.
  await invite(page, 'later@company.example')
  await say(page, 'An invitation is on its way to later@company.example.')

  // What asks first is not below the proof, and comes back after it.
  await go(page, 'Company')
  service.clock.advance(16 * 60)
  await press(page, 'End all sessions…')
  const asking = page.getByRole('dialog', { name: 'End all sessions?' })
  await press(asking, 'End all sessions')
  await dialog.waitFor()
  expect(await page.locator('dialog[open]').count()).toBe(1)
  await page.keyboard.press('Escape')
  await asking.getByText('Nothing was changed').waitFor()
  expect(await page.locator('dialog[open]').count()).toBe(1)
  await press(asking, 'End all sessions')
  await type(dialog.getByLabel('Password'), PASSWORD)
  await press(dialog, 'Continue')
  await say(page, 'All sessions but this one have ended.')
  await asking.waitFor({ state: 'detached' })
  expect(await tracesIn(page)).not.toContain(PASSWORD)
  expectClean()
})

test('of two tabs, both leave when one signs out, and both are in when one signs in', async () => {
  const { admin, page, context, expectClean } = await openSignedIn()
  const second = await context.newPage()
  await second.goto(`${origin}/account`)
  await go(second, 'Members')
  await heading(second, 'Members')
  await press(page, 'Sign out')
  await say(page, "You're signed out.")
  await heading(second, 'Sign in')
  expect(await second.content()).not.toContain(admin.email)
  await second.goBack()
  await heading(second, 'Sign in')

  await fill(page, { Email: admin.email, Password: PASSWORD })
  await press(page, 'Sign in')
  await heading(page, 'Developer settings')
  await second.bringToFront()
  await second.locator('nav').waitFor()
  expectClean()
})

test('a tab shows nothing of one company in the session of another (ASVS 8.2.2)', async () => {
  const { page, context, expectClean } = await openSignedIn()
  await go(page, 'Members')
  const section = page.getByRole('region', { name: 'Add a service account' })
  await section.getByLabel('Name').fill('Server of One')
  await press(section, 'Add service account')
  const password = (await page.locator('.fresh dd code').last().textContent()) ?? ''
  expect(password).toMatch(/^gsp_[\w-]{43}$/)

  const other = await service.addCompany({ name: 'Two', adminName: 'Eve of Two' })
  const second = await context.newPage()
  await second.goto(`${origin}/account`)
  await press(second, 'Sign out')
  await enter(second, other)
  await second.locator('.company', { hasText: 'Two' }).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
  await go(page, 'Members')
  await say(page, 'Eve of Two')
  for (const text of [password, 'Server of One']) expect(await page.content()).not.toContain(text)
  expectClean()
})

test('all other sessions end, also when one of them has ended meanwhile (ASVS 7.5.2)', async () => {
  const { admin, page, expectClean } = await openSignedIn()
  const others = [await service.loginAs(admin), await service.loginAs(admin), await service.loginAs(admin)]
  await go(page, 'Account')
  await page
    .getByRole('button', { name: /^End the session/ })
    .nth(2)
    .waitFor()
  // The first that the page ends is gone by then.
  await service.call('/auth/logout', { token: others.at(-1)?.accessToken ?? '' })
  await press(page, 'End all 3 others')
  await expect.poll(() => page.getByRole('button', { name: /^End the session/ }).count()).toBe(0)
  for (const { accessToken: token } of others) expect((await service.getSession({ token })).status).toBe(401)
  expectClean()
})

test('without the service the pages say so, and lose nothing that was typed', async () => {
  const { page, context, expectClean } = await openSignedIn()
  await go(page, 'Account')
  await context.setOffline(true)
  const name = page.getByRole('textbox', { name: 'Name', exact: true })
  await name.fill('Ada King')
  await press(page, 'Save name')
  await say(page, "We can't reach gatehouse.")
  await press(page, 'Sign out')
  await say(page, "You're still signed in")
  await context.setOffline(false)
  // As a proxy in front answers when it has waited for too long.
  const problem = { status: 504, headers: { 'cache-control': 'no-store' }, body: '{"code":"unavailable"}' }
  await page.route('**/api/**', (route) => route.fulfill(problem))
  await press(page, 'Save name')
  await say(page, 'gatehouse is busy, and this may be done already. Try again in 1 second.')
  await page.unroute('**/api/**')
  expect(await name.inputValue()).toBe('Ada King')
  await press(page, 'Save name')
  await say(page, 'Your name is saved.')
  expectClean()
})
