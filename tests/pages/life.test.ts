import { expect, test } from 'vitest'
import { fill, go, heading, openPages, press, say, submit, tracesIn, translate } from '../support/browser.ts'
import { PASSWORD } from '../support/test-service.ts'

const { origin, service, mailbox, openPage, openMailed, giveCodeTo } = await openPages()

test('a company registers, sends an event, invites a colleague, and demotes them (ASVS 3.2.1, 14.3.3)', async () => {
  const { page } = await openPage()
  // In a browser that translates the page.
  await translate(page)
  const email = 'ada@acme.example'

  await page.goto('/register')
  await submit(page, { Company: 'Acme', 'Your name': 'Ada', 'Your email': email }, 'Register company')
  await fill(page, { Password: 'password1' })
  // The hint shown before the refusal must not be better than the rule.
  await page.getByText('Weak', { exact: true }).waitFor()
  await press(page, 'Register company')
  await page.locator('[aria-invalid=true]').waitFor()
  await press(page, 'Show password')
  await press(page, 'Hide password')
  await expect.poll(() => page.getByText('Weak', { exact: true }).count()).toBe(1)
  await submit(page, { Password: PASSWORD, 'Your email': 'adda@acme.example' }, 'Register company')
  await expect.poll(() => page.getByText('Weak', { exact: true }).count()).toBe(0)
  await heading(page, 'Check your email')
  // The user mistyped the email, so the rest stays filled in.
  await press(page, 'Change the email')
  await page.locator('input[name=email]:focus').waitFor()
  await submit(page, { 'Your email': email }, 'Register company')
  await say(page, `We've emailed a link to ${email}.`)
  // A user who signs in too early, or opens an older link, can request a new one.
  const { token: replaced } = await mailbox.mailTo(email)
  await go(page, 'Sign in')
  await submit(page, { Email: email, Password: PASSWORD }, 'Sign in')
  await say(page, `We've emailed a link to ${email}. Open it to confirm your email, then sign in.`)
  await press(page, 'Send again')
  await say(page, 'Sent again.')
  await mailbox.mailTo(email)
  await page.goto(`/verify-email#token=${replaced}`)
  await press(page, 'Confirm email')
  await heading(page, 'Link expired')
  await say(page, 'was replaced by a newer email.')
  await submit(page, { Email: email }, 'Email me a new link')
  await say(page, "isn't confirmed yet, we've emailed you a new link.")

  const { token } = await openMailed(page, email)
  await expect.poll(() => page.url()).toBe(`${origin}/verify-email`)
  await press(page, 'Confirm email')
  // The response contains company and email.
  await say(page, 'Your email is confirmed.')
  await say(page, /Signing in to acme-\d{4}/)
  expect(await page.getByLabel('Email', { exact: true }).inputValue()).toBe(email)
  await submit(page, { Password: PASSWORD }, 'Sign in')

  await heading(page, 'Developer settings')
  await press(page, 'Create signing secret')
  const secret = (await page.locator('.secret code').textContent()) ?? ''
  expect(secret).toMatch(/^whsec_/)
  await say(page, 'Waiting for the first event')
  const companyId = await page.locator('dt:has-text("Company ID") + dd code').innerText()
  expect((await service.send(companyId, secret, { type: 'payment.created', data: {} })).status).toBe(202)
  await say(page, 'Last event received')
  for (const one of [secret, token, PASSWORD]) expect(await tracesIn(page)).not.toContain(one)

  await press(page, 'Replace secret…')
  await submit(page, { 'Company name': 'acme' }, 'Replace secret')
  await say(page, 'must be “Acme”')
  await submit(page, { 'Company name': 'Acme' }, 'Replace secret')
  await say(page, 'Your new secret, version 2.')
  const next = (await page.locator('.secret code').textContent()) ?? ''
  expect((await service.send(companyId, secret, { type: 'payment.created', data: {} })).status).toBe(401)
  await say(page, 'Give this sender the current one.')
  await page.locator('.list-row', { hasText: 'previous_secret' }).waitFor()

  await go(page, 'Members')
  await press(page.getByRole('dialog', { name: 'Leave this page?' }), 'Leave')
  const bob = 'bob@acme.example'
  const dialog = page.getByRole('dialog')
  await press(page, 'Invite people')
  await dialog.getByLabel('Email addresses').fill(bob)
  await dialog.getByLabel('Role').selectOption('admin')
  await press(dialog, 'Invite')
  await giveCodeTo(email, dialog)
  await say(page, `An invitation is on its way to ${bob}.`)

  const { page: colleague } = await openPage()
  await openMailed(colleague, bob)
  await heading(colleague, 'Join Acme')
  await submit(colleague, { 'Your name': 'Bob', Password: PASSWORD }, 'Join')
  await heading(colleague, 'Developer settings')

  // Bob is demoted while signed in, which his page notices. Then he is disabled and signed out.
  await page.reload()
  await press(page, 'Manage Bob')
  const details = page.locator('.list-details')
  await details.getByLabel('Role').selectOption('developer')
  await press(details, 'Save changes')
  await page.locator('.list-row', { hasText: bob }).getByText('developer').waitFor()
  await say(colleague, 'To get the signing secret, ask an admin of your company.')
  // Developers see accepted events, but not refused requests.
  await press(colleague, 'Watch events')
  await say(colleague, 'No events yet.')
  const send = colleague.getByRole('region', { name: 'Send events' })
  await submit(send, { 'Signing secret': next }, 'Send test event')
  await colleague.locator('.list-row', { hasText: /test\.event.*Accepted/s }).waitFor()
  expect(await colleague.getByText('previous_secret').count()).toBe(0)
  await press(details, 'Disable Bob')
  await press(page.getByRole('dialog', { name: 'Disable Bob?' }), 'Disable')
  await page.locator('.list-row', { hasText: bob }).getByText('disabled').waitFor()
  await go(colleague, 'Account')
  await say(colleague, 'Your account is disabled.')
  // A member who has joined need not name the company again.
  await say(colleague, 'Signing in to Acme')

  await go(page, 'Activity')
  await heading(page, 'Activity')
  await page.getByRole('cell', { name: /disabled Bob/ }).waitFor()
  await page.locator('.list-row', { hasText: /Bob.*started to watch events/s }).waitFor()
})
