import { expect, test } from 'vitest'
import { go, heading, openPages, press, say, signIn, submit, tracesIn, type } from '../support/browser.ts'

const { origin, service, openPage, openAdmin, codeTo, giveCodeTo } = await openPages()

test('a viewer starts at their account, and cannot create a signing secret', async () => {
  const { page } = await openPage()
  await signIn(page, await service.addUser(await service.addCompany()), { home: 'Your account' })
  await page.getByText("Views risks and analytics, but can't change anything.").click()
  await say(page, 'You can view risks')
  await go(page, 'Developer')
  await say(page, 'To get the signing secret, ask an admin of your company.')
  expect(await page.getByRole('button', { name: 'Create signing secret' }).count()).toBe(0)
})

test('a pasted list invites each person with the role on their line', async () => {
  const { admin, page } = await openAdmin()
  await go(page, 'Members')
  await press(page, 'Invite people')
  const dialog = page.getByRole('dialog', { name: 'Invite people' })
  const box = dialog.locator('textarea:focus')
  await box.waitFor()
  const place = async () => (await box.boundingBox())?.y
  const before = await place()
  const { keyboard } = page
  await keyboard.insertText('"Roe, Jane" <ann@list.example>, analyst; Doe, John <bob@bücher.example>')
  await keyboard.insertText('\nEve@list.example Admin\nnot-an-email, developer')
  // The dialog does not move while someone types.
  expect(await place()).toBe(before)
  // A closed dialog keeps the list.
  await keyboard.press('Escape')
  // Not by its role, which a closed dialog loses before the page knows.
  await page.locator('dialog').waitFor({ state: 'detached' })
  await page.locator('button:focus', { hasText: 'Invite people' }).press('Enter')
  await dialog.getByLabel('Role').selectOption('viewer')
  await press(dialog, 'Invite 4 people')
  // Inviting an admin requires a code from the inviter's mailbox, unless they have a second factor.
  const proof = page.getByRole('dialog', { name: 'Confirm with a code' })
  await proof.locator('button:focus', { hasText: 'Email me a code' }).press('Enter')
  await submit(proof, { 'Code from the email': '00000000' }, 'Continue')
  await proof.getByText('is wrong, used, or expired').waitFor()
  await submit(proof, { 'Code from the email': await codeTo(admin.email) }, 'Continue')
  await dialog.getByText('3 invitations are on their way.').waitFor()
  await dialog.getByText("isn't an email address").waitFor()
  // The invalid line stays, with its role, and has the focus.
  expect(await box.inputValue()).toBe('not-an-email, developer')
  await keyboard.press('Escape')
  await page.locator('.done', { hasText: '3 invitations are on their way.' }).waitFor()
  await press(page, 'Invite people')
  expect(await box.inputValue()).toBe('not-an-email, developer')
  expect(await dialog.getByText("isn't an email address").count()).toBe(0)
  await box.fill('carol@list.example')
  await press(dialog, 'Invite')
  await page
    .locator('.done:focus', { hasText: 'An invitation is on its way to carol@list.example.' })
    .waitFor()
  await page.getByRole('link', { name: 'Invitations 4' }).click()
  await page.getByText('is on its way').waitFor({ state: 'detached' })
  const row = (email: string) => page.locator('.list-row', { hasText: email })
  await row('ann@list.example').getByText('analyst').waitFor()
  await row('bob@bücher.example').or(row('bob@xn--bcher-kva.example')).getByText('viewer').waitFor()
  await row('Eve@list.example').getByText('admin', { exact: true }).waitFor()
  await press(page, 'Withdraw the invitation for carol@list.example')
  // Not the small, right-aligned text of the table around it.
  await page.getByRole('dialog').waitFor()
  const style =
    "(({ textAlign, fontSize }) => [textAlign, fontSize])(getComputedStyle(document.querySelector('dialog')))"
  expect(await page.evaluate(style)).toEqual(['start', '16px'])
  await press(page.getByRole('dialog'), 'Withdraw')
  await page.locator('.done:focus', { hasText: 'Invitation for carol@list.example withdrawn.' }).waitFor()
  await page.getByRole('link', { name: 'Invitations 3' }).waitFor()
  // The address keeps the tab.
  await page.reload()
  await row('Eve@list.example').waitFor()
  await page.getByRole('link', { name: 'Members 1' }).click()
  await row(admin.email).waitFor()
  await page.goBack()
  await row('Eve@list.example').waitFor()
  const { email } = await service.addUser(admin)
  await page.goBack()
  await page.getByRole('link', { name: 'Members 2' }).waitFor()
  // Making a member an admin requires a code, too.
  await press(page, `Manage ${email}`)
  const details = page.locator('.list-details')
  await details.getByLabel('Role').selectOption('admin')
  await press(details, 'Save changes')
  await press(proof, 'Cancel')
  await details.locator('[role=alert]:focus', { hasText: "you can't add the admin" }).waitFor()
  await press(details, 'Save changes')
  await giveCodeTo(admin.email, proof)
  await details.locator('.done:focus', { hasText: 'Saved.' }).waitFor()
  await row(email).getByText('admin').waitFor()
  // A second save must not restore the previous role.
  await expect.poll(() => details.getByLabel('Role').inputValue()).toBe('admin')
  await press(details, `Delete ${email}`)
  await press(page.getByRole('dialog'), 'Delete')
  await page.locator('.done:focus', { hasText: `${email} was deleted.` }).waitFor()
  await page.getByRole('link', { name: 'Members 1' }).waitFor()
  await press(page, `Manage ${admin.email}`)
  await go(page, `Show all activity of ${admin.email}`)
  await page
    .getByRole('cell', { name: /deleted/ })
    .first()
    .waitFor()
})

test('settings of the company show whom they affect, and new names appear everywhere', async () => {
  const { admin, page, context } = await openAdmin({ remembers: true })
  const { accessToken: token } = await service.loginAs(admin)
  await service.addUser(admin)
  await service.call('/auth/members', { token, json: { name: 'Billing worker', role: 'developer' } })
  const former = await service.handleOf(admin)
  const second = await context.newPage()
  await second.goto('/account')
  await go(page, 'Company')
  const dialog = page.getByRole('dialog', { name: 'Change handle' })
  await press(page, 'Change handle')
  await dialog.getByText('with a letter first and no hyphen at the end.').waitFor()
  // An invalid handle is refused without using one of the day's five changes.
  for (const wrong of ['4821-acme', 'ab', 'acme-', 'ac me', 'acme!']) {
    await submit(dialog, { 'New handle': wrong }, 'Save handle')
    await dialog.locator('[aria-invalid=true]:focus').waitFor()
    await dialog.getByText('start with a letter, and end with a letter or digit').waitFor()
  }
  await submit(dialog, { 'New handle': '' }, 'Save handle')
  await dialog.getByText('Enter a handle.').waitFor()
  await dialog.getByText('2 members').waitFor()
  await dialog.getByText('1 service account').waitFor()
  await dialog.getByText(`${former} stops working immediately.`).waitFor()
  await press(dialog, 'Cancel')
  await dialog.waitFor({ state: 'detached' })
  expect(await service.handleOf(admin)).toBe(former)
  await press(page, 'Change handle')
  await submit(dialog, { 'New handle': ' Renamed-1234 ' }, 'Save handle')
  await page.locator('.done:focus', { hasText: 'Everyone now signs in with renamed-1234.' }).waitFor()

  await press(page, 'Change name')
  await type(page.getByRole('textbox', { name: 'Name', exact: true }), 'Renamed')
  await press(page, 'Save name')
  await page.locator('.company', { hasText: 'Renamed' }).waitFor()
  await second.locator('.company', { hasText: 'Renamed' }).waitFor()

  /** Chooses a session limit in its dialog, which says what it does. */
  async function limit(setting: string, choice: string, effect: string): Promise<void> {
    await press(page, `Change ${setting}`)
    const form = page.getByRole('dialog', { name: `Change ${setting}` })
    await form.locator('select:focus').selectOption({ label: choice })
    await form.getByRole('status').getByText(effect).waitFor()
    await press(form, `Save ${setting}`)
    await page.locator('.done:focus', { hasText: 'It takes effect immediately.' }).waitFor()
  }
  await limit('maximum session age', '12 hours', 'Older sessions end immediately.')
  await limit('idle limit', '15 minutes', 'must sign in again. Sessions that have been unused for longer end')
  const limits = await service.call('/auth/company/security', { method: 'GET', token })
  expect(limits.body).toMatchObject({ sessionIdleSeconds: 900, sessionMaxAgeSeconds: 43_200 })
  await limit(
    'idle limit',
    'Default of this service',
    'A stolen or unattended device stays signed in for longer',
  )
  const security = page.getByRole('region', { name: 'Security' })
  await security.getByText('At the latest 12 hours after signing in, people must sign in again').waitFor()
  await go(page, 'Activity')
  await say(page, 'idle limit from 15 minutes to default')
  await go(page, 'Account')
  await press(page, 'Change name')
  await submit(page, { Name: 'Ada King' }, 'Save name')
  for (const tab of [page, second]) await tab.locator('.who', { hasText: 'Ada King' }).waitFor()
  await go(page, 'Members')
  await page.getByRole('rowheader', { name: 'Ada King' }).waitFor()
  await press(page, 'Sign out')
  await say(page, 'Signing in to Renamed')
})

test('a secret is copied, used, and replaced after an unseen replacement', async () => {
  const { admin, page, context } = await openAdmin()
  await press(page, 'Create signing secret')
  const send = page.getByRole('region', { name: 'Send events' })
  await send.getByText('Waiting for the first event').waitFor()
  const secret = page.locator('.secret')
  const shown = (await secret.locator('code').textContent()) ?? ''
  const button = secret.getByRole('button', { name: 'Copy the secret' })
  // The browser denies access to the clipboard until it is allowed.
  await button.click()
  await button.getByText('press Ctrl+C').waitFor()
  expect(await page.evaluate<string>('String(getSelection())')).toBe(shown)
  await context.grantPermissions(['clipboard-write'], { origin })
  await button.click()
  await button.getByText('Copied', { exact: true }).waitFor()
  await secret.getByRole('status').getByText('Copied the secret').waitFor()

  await service.send(admin.companyId, `whsec_${btoa('another secret of 32 bytes, or so')}`, '{}')
  await send.getByText(`the current one ends in …${shown.slice(-4)}`).waitFor()
  await send.getByText(`SIGNING_SECRET=${shown} bash send.sh`).waitFor()
  const events = page.getByRole('region', { name: 'Received events' })
  const watched = page.waitForResponse('**/auth/events?*')
  await press(events, 'Watch events')
  await watched
  await press(send, 'Send test event')
  await send.locator('.done:focus', { hasText: 'Accepted with status 202' }).waitFor()
  // The tick does not hide the refusal.
  await send.getByText('Last event received').waitFor()
  await send.getByText(`the current one ends in …${shown.slice(-4)}`).waitFor()
  // Digits that JavaScript would round stay, and large content is left out.
  await service.send(admin.companyId, shown, '{"type":"a.b","data":{"id":12345678901234567890,"rate":1.0}}')
  await service.send(admin.companyId, shown, { type: 'large.one', data: { text: 'x'.repeat(9_000) } })
  await events.locator('summary', { hasText: 'a.b' }).click()
  expect(await events.locator('details[open]').innerText()).toMatch(/12345678901234567890,\s+"rate": 1\.0/)
  await events.locator('summary', { hasText: 'large.one' }).click()
  await events.getByText('larger than 8 KiB').waitFor()
  expect(await events.getByRole('row').allInnerTexts()).toEqual([
    expect.stringContaining('Outcome'),
    ...['large.one', 'a.b', 'test.event'].map((type) =>
      expect.stringMatching(new RegExp(`${type}[^]*Accepted`)),
    ),
    expect.stringMatching(/Refused 1 × signature_mismatch/),
  ])

  await press(page, 'Replace secret…')
  // Someone else replaces the secret, and the page does not know it yet.
  await page.route('**/webhook-secret/status', (route) => route.abort())
  await service.newSecret(admin)
  await submit(page, { 'Company name': 'Acme' }, 'Replace secret')
  await page.getByRole('dialog').getByRole('alert').waitFor()
  await page.unroute('**/webhook-secret/status')
  await page.locator('dd', { hasText: /^2$/ }).waitFor()
  await press(page, 'Replace secret')
  await say(page, 'Your new secret, version 3.')

  // The service replaces the secret, but the page never gets it.
  await page.route('**/webhook-secret/regenerate', async (route) => {
    await route.fetch()
    await route.abort()
  })
  await press(page, 'Replace secret…')
  await submit(page, { 'Company name': 'Acme' }, 'Replace secret')
  const dialog = page.getByRole('dialog')
  await dialog.getByText('if this page now shows version 4, replace it again').waitFor()
  await press(dialog, 'Cancel')
  await page.locator('dd', { hasText: /^4$/ }).waitFor()
  // A secret that was replaced is refused, also in the test event.
  page.once('dialog', (leaving) => leaving.accept())
  await page.reload()
  await submit(send, { 'Signing secret': 'whsec_short' }, 'Send test event')
  await send.getByText('must start with whsec_').waitFor()
  await submit(send, { 'Signing secret': shown }, 'Send test event')
  await send
    .locator('.error:focus', { hasText: "Refused with status 401. This isn't the current secret" })
    .waitFor()
  await send.getByText('SIGNING_SECRET=whsec_… bash send.sh').waitFor()
  expect(await tracesIn(page)).not.toContain(shown)
})

test("a service account's new password replaces the current one later or immediately", async () => {
  const { page } = await openAdmin()
  await go(page, 'Members')
  await press(page, 'Add service account')
  await submit(page.getByRole('dialog'), { Name: 'Billing worker' }, 'Add')
  const fresh = page.getByRole('region', { name: 'Password for Billing worker' })
  const shown = async () => {
    await fresh.locator('h2:focus').waitFor()
    const texts = await fresh.locator('dd code').allTextContents()
    await press(page, "I've stored them")
    await page.locator('.done:focus', { hasText: 'is no longer shown' }).waitFor()
    const [companyId = '', email = '', password = ''] = texts
    return { companyId, email, password }
  }
  const first = await shown()
  const statusOf = async (server: typeof first) => (await service.login(server)).status
  expect(await statusOf(first)).toBe(200)

  await press(page, 'Manage Billing worker')
  // The list cuts the email, which programs send.
  const email = page.locator('.member dd', { hasText: first.email })
  await email.getByRole('button', { name: 'Copy the email' }).waitFor()
  const passwords = page.getByRole('table', { name: 'Passwords' })
  await passwords.getByText(`gsp_…${first.password.slice(-4)}`).waitFor()
  const dialog = page.getByRole('dialog')
  const replace = async (stops: string) => {
    await press(page, 'Replace password for Billing worker')
    await dialog.getByLabel('The current password stops working').selectOption(stops)
    await press(dialog, 'Replace password')
  }
  await replace('in 24 hours')
  await fresh.getByText('The previous password works until').waitFor()
  const second = await shown()
  expect([await statusOf(first), await statusOf(second)]).toEqual([200, 200])
  // The newest password is first, and only the previous one expires.
  const rows = passwords.locator('tbody tr')
  await expect.poll(() => rows.count()).toBe(2)
  const expiries = await rows.locator('td[data-label=Expires]').allTextContents()
  expect(expiries).toEqual(['never', expect.stringMatching(/\d/)])

  // The dialog is closed, and the list is filtered, when the response arrives.
  const gate = Promise.withResolvers<void>()
  await page.route('**/password', async (route) => {
    await gate.promise
    await route.continue()
  })
  await replace('now')
  await page.keyboard.press('Escape')
  await page.locator('search').getByLabel('Kind').selectOption('service')
  await say(page, '1 member matches')
  gate.resolve()
  const third = await shown()
  await press(page, 'Manage Billing worker')
  await expect.poll(() => rows.count()).toBe(1)
  expect([await statusOf(first), await statusOf(second), await statusOf(third)]).toEqual([401, 401, 200])
})

test('a role that changes elsewhere is noticed at the next click', async () => {
  const { admin, page } = await openAdmin()
  await say(page, 'There is no secret yet')
  await go(page, 'Account')
  const other = await service.addUser(admin, 'admin')
  const { accessToken: token } = await service.loginAs(other)
  const change = { method: 'PATCH', token, json: { role: 'viewer' } }
  const { user } = await service.loginAs(admin)
  expect((await service.call(`/auth/members/${user.id}`, change)).status).toBe(200)
  await go(page, 'Members')
  await heading(page, "You can't view this page")
  await say(page, 'Your role is viewer.')
  expect(await page.getByRole('link', { name: 'Activity' }).count()).toBe(0)
  await go(page, 'Go to your account')
  await heading(page, 'Your account')
})
