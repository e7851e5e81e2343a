import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { enter, go, heading, openPages, press, say, submit, tracesIn } from '../support/browser.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { NEW_PASSWORD, PASSWORD } from '../support/test-service.ts'

const { service, mailbox, openPage, openAdmin, openMailed, codeTo } = await openPages()

async function choosePassword(page: Page): Promise<void> {
  await heading(page, 'Choose a new password')
  await page.locator('input[name=newPassword]:focus').waitFor()
  await submit(page, { 'New password': NEW_PASSWORD }, 'Change password')
  // Signed in with the password that was just typed.
  await heading(page, 'Developer settings')
}

test('an emailed link resets the password and ends the other sessions (ASVS 6.4.3, 7.4.3)', async () => {
  const { admin, page } = await openAdmin({ remembers: true })
  await go(page, 'Account')
  await heading(page, 'Your account')

  const { page: other } = await openPage()
  await other.goto('/sign-in')
  await go(other, 'Forgot your password?')
  await submit(other, { Company: 'nobody-1234', Email: admin.email }, 'Email me a link')
  // The page does not reveal whether the account exists, so users can see and change what they typed.
  await say(other, `If ${admin.email} has an account at nobody-1234, we've emailed you a link`)
  await press(other, 'Change the company or email')
  expect(await other.getByLabel('Email', { exact: true }).inputValue()).toBe(admin.email)
  await submit(other, { Company: admin.companyId }, 'Email me a link')
  const { token } = await openMailed(other, admin.email)
  await choosePassword(other)
  for (const secret of [token, NEW_PASSWORD]) expect(await tracesIn(other)).not.toContain(secret)

  await press(page, 'Change name', 'Save name')
  await say(page, 'Your password was reset. Sign in with the new one.')
  // The page still knows the company.
  await page.locator('input[name=email]:focus').waitFor()
  await submit(page, { Email: admin.email, Password: PASSWORD }, 'Sign in')
  await page.locator('.error').first().waitFor()
  await submit(page, { Email: admin.email, Password: NEW_PASSWORD }, 'Sign in')
  // Sign-in returns to the page from before.
  await heading(page, 'Your account')
})

test('a new email address takes effect once its emailed link is opened (ASVS 6.3.7)', async () => {
  const { admin, page } = await openAdmin()
  await go(page, 'Account')
  const newEmail = 'renamed@company.example'
  const pending = page.getByText('Waiting for you to open the link')
  const dialog = page.getByRole('dialog', { name: 'Change email' })
  async function request(address: string): Promise<void> {
    await press(page, 'Change email')
    await submit(dialog, { 'New email': address }, 'Email me a link')
    // Without a second factor, the old address decides.
    const proof = page.getByRole('dialog', { name: 'Confirm with a code' })
    await proof.getByText(address).waitFor()
    await proof.locator('button:focus', { hasText: 'Email me a code' }).press('Enter')
    await proof.locator('input:focus').waitFor()
    // As an input method for full-width characters types it.
    const digits = [...(await codeTo(admin.email))].map((digit) =>
      String.fromCodePoint(0xff10 + Number(digit)),
    )
    await submit(proof, { 'Code from the email': digits.toSpliced(4, 0, '－').join('') }, 'Continue')
    await page.locator('.done:focus', { hasText: 'Nothing changes until you open it.' }).waitFor()
    await mailbox.mailTo(admin.email, 'A new email address was requested')
  }
  await request('typo@company.example')
  const { token: withdrawn } = await openMailed((await openPage()).page, 'typo@company.example')
  await say(page, /emailed to typo@company\.example until \w/)
  await press(page, 'Withdraw')
  await page.locator('.done:focus', { hasText: 'Request withdrawn.' }).waitFor()
  await pending.waitFor({ state: 'detached' })
  expect((await service.call('/auth/email/confirm', { json: { token: withdrawn } })).status).toBe(400)
  await request(newEmail)
  await pending.waitFor()

  // On touch screens, pages focus no field, because that would open the keyboard.
  const { page: phone } = await openPage({ hasTouch: true, isMobile: true })
  await phone.goto('/sign-in')
  await phone.locator('h1:focus').waitFor()
  const { token } = await openMailed(phone, newEmail)
  await heading(phone, 'Confirm your new email')
  await press(phone, 'Use this email')
  await heading(phone, 'Email changed')
  expect(await tracesIn(phone)).not.toContain(token)
  // Without a reload.
  await page.getByText(newEmail, { exact: true }).waitFor()
  await pending.waitFor({ state: 'detached' })
  await page.getByText('Nothing changes until you open it.').waitFor({ state: 'detached' })
  expect((await service.login({ ...admin, email: newEmail })).status).toBe(200)
})

test('the undo link takes an account back after an email change (ASVS 6.3.7, 14.2.1)', async () => {
  const admin = await service.addCompany()
  const { accessToken: token } = await service.loginAs(admin)
  const newEmail = 'taken@elsewhere.example'
  const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
  await service.call('/auth/email/change', { token, json: { newEmail, mailCode } })
  const { token: link } = await mailbox.mailTo(newEmail)
  await service.call('/auth/email/confirm', { json: { token: link } })
  await service.call('/auth/members', { token, json: { name: 'worker', role: 'viewer' } })

  const { page } = await openPage()
  const { token: undo } = await openMailed(page, admin.email)
  await heading(page, 'Undo a change to your account')
  await page.getByText(admin.email).waitFor()
  await page.getByText(/^Company \d+$/).waitFor()
  expect(await tracesIn(page)).not.toContain(undo)
  // After a reload, the page still shows whose account it is.
  await page.reload()
  await page.getByText(admin.email).waitFor()
  await page.goto('about:blank')
  await page.goto(`/undo#token=${undo}`)
  await press(page, 'Undo the change')
  await heading(page, 'Change undone')
  await say(page, /Service account worker \(worker-\d{4}@service\.invalid\)/)
  await openMailed(page, admin.email)
  await choosePassword(page)
  expect((await service.login({ ...admin, password: NEW_PASSWORD })).status).toBe(200)
})

test('users end one or all other sessions, which then show it (ASVS 7.4.5, 7.5.2)', async () => {
  const { admin, page } = await openAdmin()
  const userAgent = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'
  const { page: other } = await openPage({ userAgent })
  await other.goto('/members')
  await enter(other, admin)
  // Sign-in leads to the page that was requested before.
  await heading(other, 'Members')

  await go(page, 'Account')
  const row = page.locator('.settings > div', { hasText: 'Firefox on Linux' })
  await row.getByRole('button', { name: /^End/ }).click()
  await row.waitFor({ state: 'detached' })
  // The button that had the focus is gone.
  await page.locator('.done:focus', { hasText: 'Session ended.' }).waitFor()
  await press(other, 'Invite people')
  await submit(other, { 'Email addresses': 'bob@company.example' }, 'Invite')
  await say(other, 'You ended this session from a different one, or changed your second factors there.')
  await enter(other, admin)
  await heading(other, 'Members')

  const others = [await service.loginAs(admin), await service.loginAs(admin)]
  const ends = page.getByRole('button', { name: /^End the session/ })
  await page.reload()
  await ends.nth(2).waitFor()
  // The first session that the page would end is already gone.
  await service.call('/auth/logout', { token: others.at(-1)?.accessToken ?? '' })
  await press(page, 'End 3 other sessions')
  await expect.poll(() => ends.count()).toBe(0)
  for (const { accessToken: token } of others) expect((await service.getSession({ token })).status).toBe(401)
})

test('users download what is stored about them, and delete their account (ASVS 14.2.7)', async () => {
  const { admin, page } = await openAdmin()
  await go(page, 'Account')
  const button = page.getByRole('button', { name: 'Download your data' })
  service.clock.advance(16 * 60)
  await button.click()
  const download = page.waitForEvent('download')
  await submit(page.getByRole('dialog'), { Password: PASSWORD }, 'Continue')
  const file = await download
  expect(file.suggestedFilename()).toBe('account.json')
  const data = JSON.parse((await (await file.createReadStream()).toArray()).join(''))
  expect(data.account).toMatchObject({ id: admin.userId, email: admin.email })

  const dialog = page.getByRole('dialog', { name: 'Delete account?' })
  await press(page, 'Delete… account')
  await say(dialog, 'The audit log stays.')
  await press(dialog, 'Delete account')
  await say(dialog, 'This would leave the company without an active admin.')
  await press(dialog, 'Cancel')
  await service.addUser(admin, 'admin')
  await press(page, 'Delete… account')
  await press(dialog, 'Delete account')
  await heading(page, 'Sign in')
  await say(page, 'Your account was deleted.')
  expect((await service.login(admin)).status).toBe(401)
})

test('tabs follow a sign-out and a sign-in, and forget the previous company (ASVS 8.2.2)', async () => {
  const { admin, page, context } = await openAdmin()
  await go(page, 'Members')
  await press(page, 'Add service account')
  await submit(page.getByRole('dialog'), { Name: 'Server of One' }, 'Add')
  const password = (await page.locator('.fresh dd code').last().textContent()) ?? ''
  expect(password).toMatch(/^gsp_[\w-]{43}$/)
  const expectForgotten = async () => {
    for (const text of [admin.email, password, 'Server of One'])
      expect(await page.content()).not.toContain(text)
  }

  const second = await context.newPage()
  await second.goto('/account')
  await press(second, 'Sign out')
  await say(second, "You're signed out.")
  await heading(page, 'Sign in')
  await expectForgotten()
  await page.goBack()
  await heading(page, 'Sign in')

  await enter(second, await service.addCompany({ name: 'Two', adminName: 'Eve of Two' }))
  await second.locator('.company', { hasText: 'Two' }).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
  await go(page, 'Members')
  await say(page, 'Eve of Two')
  await expectForgotten()
})

test('pages without a connection show that and keep typed text', async () => {
  const { page, context } = await openAdmin()
  await go(page, 'Account')
  await context.setOffline(true)
  const name = page.getByRole('textbox', { name: 'Name', exact: true })
  await press(page, 'Change name')
  await name.fill('Ada King')
  await press(page, 'Save name')
  await say(page, "We can't reach gatehouse.")
  await context.setOffline(false)
  // A proxy sends this after it has waited too long.
  const problem = { status: 504, headers: { 'cache-control': 'no-store' }, body: '{}' }
  await page.route('**/api/**', (route) => route.fulfill(problem))
  await press(page, 'Save name')
  await say(page, 'gatehouse is busy, and your request may have succeeded. Try again in 1 second.')
  await page.unroute('**/api/**')
  expect(await name.inputValue()).toBe('Ada King')
  await press(page, 'Save name')
  await page.locator('.done:focus', { hasText: 'Name saved.' }).waitFor()

  // A dialog that was closed in the meantime leaves the fault beside its button, and opens again without it.
  await page.route('**/auth/account', async (route) => {
    await press(page, 'Cancel')
    await route.fulfill(problem)
  })
  await press(page, 'Change name', 'Save name')
  await page.getByRole('alert').and(page.locator(':focus')).getByText('gatehouse is busy').waitFor()
  await press(page, 'Change name')
  await name.waitFor()
  expect(await page.getByRole('alert').count()).toBe(0)
})

test('a sign-out without a connection clears the page, and completes when the network returns', async () => {
  const { admin, page, context } = await openAdmin()
  await go(page, 'Account')
  await say(page, admin.email)
  await context.setOffline(true)
  await press(page, 'Sign out')
  await heading(page, "You're still signed in")
  expect(await page.locator('body').innerText()).not.toContain(admin.email)
  await press(page, 'Try again')
  await heading(page, "You're still signed in")
  await context.setOffline(false)
  await say(page, "You're signed out.")
  await heading(page, 'Sign in')
})

test('a retried sign-out does not end the next session when the network returns', async () => {
  const { admin, page, context } = await openAdmin()
  await say(page, 'There is no secret yet')
  await page.route('**/auth/logout', (route) => route.abort(), { times: 1 })
  await press(page, 'Sign out')
  await heading(page, "You're still signed in")
  // The user continues in a different tab.
  const second = await context.newPage()
  await second.goto('/account')
  await press(second, 'Change name')
  await submit(second, { Name: 'Ada King' }, 'Save name')
  await heading(page, 'Developer settings')
  await say(page, 'Ada King')
  await page.route('**/auth/logout', (route) => route.abort(), { times: 1 })
  await press(page, 'Sign out')
  await heading(page, "You're still signed in")
  await press(page, 'Try again')
  await say(page, "You're signed out.")
  await enter(page, admin)
  await heading(page, 'Developer settings')
  const endings: string[] = []
  page.on('request', (request) => request.url().endsWith('/auth/logout') && endings.push(request.url()))
  await context.setOffline(true)
  await context.setOffline(false)
  await go(page, 'Members')
  await heading(page, 'Members')
  expect(endings).toEqual([])
})
