import { expect, test } from 'vitest'
import { fill, go, heading, openPages, press, say, tracesIn, type } from '../support/browser.ts'
import { PASSWORD } from '../support/test-service.ts'

/** The life of a company on its pages, in a real browser. */

const { origin, service, mailbox, openPage, openMailed, codeTo } = await openPages()

test('a company registers, sends its first event, invites a colleague, and demotes them (ASVS 3.2.1)', async () => {
  const admin = await openPage(origin)
  const { page } = admin
  const email = 'ada@acme.example'

  await page.goto(`${origin}/register`)
  await fill(page, { Company: 'Acme', 'Your name': 'Ada', 'Your email': email })
  await press(page, 'Register')
  await say(page, 'Enter your password.')
  await fill(page, { Password: 'password1' })
  // What is said before it is refused is no better than the rule.
  await page.getByText('Weak', { exact: true }).waitFor()
  await press(page, 'Register')
  await page.locator('[aria-invalid=true]').waitFor()
  await fill(page, { Password: PASSWORD })
  await press(page, 'Register')
  await heading(page, 'Check your email')
  // Who signs in too early, or opens an older link, gets another one.
  const { token: replaced } = await mailbox.mailTo(email)
  await go(page, 'Sign in')
  await fill(page, { Email: email, Password: PASSWORD })
  await press(page, 'Sign in')
  await say(page, `Before you sign in, open the link that we emailed to ${email}.`)
  await press(page, 'Send it again')
  await say(page, 'Sent again.')
  await mailbox.mailTo(email)
  await page.goto(`${origin}/verify-email#token=${replaced}`)
  await press(page, 'Confirm my email')
  await heading(page, 'Link expired')
  await say(page, 'was replaced by a newer email.')
  await fill(page, { Email: email })
  await press(page, 'Email me a new link')
  await say(page, "If it isn't confirmed yet, we've emailed a new link to")

  const { token } = await openMailed(page, email)
  await expect.poll(() => page.url()).toBe(`${origin}/verify-email`)
  await press(page, 'Confirm my email')
  // Company and e-mail are known from the answer.
  await say(page, 'Your email is confirmed.')
  await say(page, /Signing in to acme-\d{4}/)
  expect(await page.getByLabel('Email', { exact: true }).inputValue()).toBe(email)
  await fill(page, { Password: PASSWORD })
  await press(page, 'Sign in')

  await heading(page, 'Developer settings')
  await press(page, 'Create signing secret')
  const secret = (await page.locator('.secret code').textContent()) ?? ''
  expect(secret).toMatch(/^whsec_/)
  await say(page, 'Waiting for the first event')
  const { companyId } = await service.db
    .selectFrom('companies')
    .select('company_id as companyId')
    .where('name', '=', 'Acme')
    .executeTakeFirstOrThrow()
  expect((await service.send(companyId, secret, { type: 'payment.created', data: {} })).status).toBe(202)
  await say(page, 'First event received.')
  for (const one of [secret, token, PASSWORD]) expect(await tracesIn(page)).not.toContain(one)
  await go(page, 'Members')
  await heading(page, 'Members')
  await go(page, 'Developer')
  await heading(page, 'Developer settings')
  // Gone when the page is left.
  expect(await page.content()).not.toContain(secret)

  await press(page, 'Replace secret…')
  await fill(page, { 'Name of the company': 'acme' })
  await press(page, 'Replace secret')
  await say(page, 'must be “Acme”')
  await fill(page, { 'Name of the company': 'Acme' })
  await press(page, 'Replace secret')
  await say(page, 'Your new secret, version 2.')
  expect((await service.send(companyId, secret, { type: 'payment.created', data: {} })).status).toBe(401)
  await expect
    .poll(async () => {
      await page.reload()
      await heading(page, 'Developer settings')
      await page.waitForLoadState('networkidle')
      return await page.locator('.refusals').count()
    })
    .toBe(1)
  await say(page, 'Give this sender the new one.')

  await go(page, 'Members')
  const bob = 'bob@acme.example'
  const invite = page.getByRole('region', { name: 'Invite people' })
  await invite.getByLabel('Email addresses').fill(bob)
  await invite.getByLabel('Role').selectOption('admin')
  await press(page, 'Invite')
  await press(invite, 'Email me a code')
  await type(invite.getByLabel('Code from the email'), await codeTo(email))
  await press(invite, 'Continue')
  await say(page, `An invitation is on its way to ${bob}.`)

  const colleague = await openPage(origin)
  await openMailed(colleague.page, bob)
  await heading(colleague.page, 'Join Acme')
  await fill(colleague.page, { 'Your name': 'Bob', Password: PASSWORD })
  await press(colleague.page, 'Join')
  // With the password that was typed just now.
  await heading(colleague.page, 'Developer settings')

  // He is demoted while he is signed in, and his next change is refused; then he is disabled, and out.
  await page.reload()
  await press(page, 'Manage Bob')
  const details = page.locator('.list-details')
  await details.getByLabel('Role').selectOption('viewer')
  await press(details, 'Save')
  await page.locator('.list-row', { hasText: bob }).getByText('viewer').waitFor()
  await press(colleague.page, 'Replace secret…')
  await fill(colleague.page, { 'Name of the company': 'Acme' })
  await press(colleague.page, 'Replace secret')
  await say(colleague.page, 'your role does not have')
  await press(details, 'Disable Bob')
  await press(page.getByRole('dialog', { name: 'Disable Bob?' }), 'Disable')
  await page.locator('.list-row', { hasText: bob }).getByText('disabled').waitFor()
  // The page asks now and then, and can show it before he goes on.
  const goOn = press(colleague.page, 'Cancel').then(() => go(colleague.page, 'Account'))
  const told = say(colleague.page, 'Your account is disabled.')
  await Promise.race([goOn, told])
  await told

  await go(page, 'Activity')
  await heading(page, 'Activity')
  await page.getByRole('cell', { name: /disabled Bob/ }).waitFor()
  await press(page, 'Sign out')
  await say(page, "You're signed out.")
  await page.goBack()
  await heading(page, 'Sign in')
  expect(await page.content()).not.toContain(bob)
  admin.expectClean()
  colleague.expectClean()
})
