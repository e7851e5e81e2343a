import { expect, test } from 'vitest'
import { go, heading, openPages, press, say, signIn, submit, tracesIn } from '../support/browser.ts'
import { linesOf } from '../support/log-lines.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { NEW_PASSWORD, PASSWORD, type Person } from '../support/test-service.ts'
import { signOut, useFactors } from './factor-steps.ts'

/** Emailed links of the signed-in user and of others, and links that no longer work. */

const { service, mailbox, openPage } = await openPages()
const { addApp, giveCode } = useFactors(service)

async function forget({ email, companyId }: Person): Promise<string> {
  service.clock.advance(1)
  await service.call('/auth/password/forgot', { json: { companyId, email } })
  return (await mailbox.mailTo(email, 'Reset your password')).token
}

test('a used or unknown link is reported before anything is typed', async () => {
  const admin = await service.addCompany()
  const { page } = await openPage()
  const used = await forget(admin)
  await service.call('/auth/password/reset', { json: { token: used, newPassword: NEW_PASSWORD } })
  await page.goto(`/reset-password#token=${used}`)
  await heading(page, 'Link expired')
  expect(await page.locator('input').count()).toBe(0)
  await page.getByRole('link', { name: 'Get a new link' }).waitFor()
  await page.goto('/accept-invitation#token=invite_nonsense')
  await say(page, 'ask the person who invited you to send a new one.')
  await page.goto('/confirm-email#token=confirm_nonsense')
  await heading(page, 'Link expired')
  await page.goto('/undo#token=undo_nonsense')
  await press(page, 'Undo the change')
  await page.locator('h1:focus', { hasText: 'Link expired' }).waitFor()
  await page.getByRole('alert').getByText('contact an admin').waitFor()
  expect(await page.getByRole('button', { name: 'Undo the change' }).count()).toBe(0)
  expect(await page.getByText("a change that you didn't make").count()).toBe(0)
  // Opened again, the page has no token, because it is stored nowhere.
  const token = await forget(admin)
  // Mail programs can encode characters of the link, and add the punctuation after it.
  for (const rest of [`#token=${token}`, `#token%3D${token}`, `#token=${token}>).`, `%23token%3D${token}`]) {
    await page.goto('about:blank')
    await page.goto(`/reset-password${rest}`)
    await page.getByLabel('New password').waitFor()
    expect(await tracesIn(page)).not.toContain(token)
  }
  expect(JSON.stringify(linesOf(service))).not.toContain(token)
  const incomplete = 'This page needs the link from your email. Open it again'
  await page.reload()
  await say(page, incomplete)
  await heading(page, 'Choose a new password')
  // The page still knows the account.
  await go(page, 'Get a new link')
  await heading(page, 'Reset your password')
  expect(await page.getByLabel('Email', { exact: true }).inputValue()).toBe(admin.email)
  for (const path of ['/confirm-email', '/verify-email', '/undo']) {
    await page.goto(path)
    await page.getByRole('alert').getByText(incomplete).waitFor()
  }
  // An unused link can be opened twice, even on its own page, which then reloads.
  await page.goto('/reset-password')
  await heading(page, 'Choose a new password')
  const loaded = page.waitForEvent('load')
  await page.goto(`/reset-password#token=${token}`)
  await loaded
  await submit(page, { 'New password': PASSWORD }, 'Change password')
  await heading(page, 'Developer settings')
})

test('a confirmation link shows that a colleague already uses the email', async () => {
  const [admin, newEmail] = [await service.addCompany(), 'wanted@company.example']
  const { accessToken: token } = await service.loginAs(admin)
  const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
  await service.call('/auth/email/change', { token, json: { newEmail, mailCode } })
  const { token: link } = await mailbox.mailTo(newEmail)
  await service.addUser(admin, 'viewer', { email: newEmail })
  const { page } = await openPage()
  await page.goto(`/confirm-email#token=${link}`)
  for (const text of [admin.email, newEmail]) await page.getByText(text, { exact: true }).waitFor()
  await press(page, 'Use this email')
  await say(page, 'Someone else in your company already uses this email. Choose a different one.')
})

test('a link names a different signed-in user and asks before it acts', async () => {
  const [admin, other] = [await service.addCompany(), await service.addCompany({ name: 'Other Inc' })]
  const { page } = await openPage()
  await signIn(page, other)
  const token = await forget(admin)
  await page.goto(`/reset-password#token=${token}`)
  await heading(page, "You're already signed in")
  for (const text of ['Other Inc', other.email, admin.email])
    await page.getByText(text, { exact: true }).first().waitFor()
  await say(page, 'If you continue and sign in, this browser is signed out of Other Inc.')
  await go(page, 'Back to Other Inc')
  await heading(page, 'Developer settings')
  // The first link still works, because nothing has happened.
  await page.goto(`/reset-password#token=${token}`)
  await press(page, 'Continue with the link')
  await submit(page, { 'New password': NEW_PASSWORD }, 'Change password')
  await heading(page, 'Developer settings')
  expect(await page.locator('.who').innerText()).toContain(admin.email)

  // The user's own link opens without a question.
  const own = await forget(admin)
  await page.goto(`/reset-password#token=${own}`)
  await page.getByLabel('New password').waitFor()
})

test('a password reset still requires the second factor', async () => {
  const member = await service.addUser(await service.addCompany())
  const { page } = await openPage()
  await signIn(page, member, { home: 'Your account' })
  const { secret } = await addApp(page)
  await signOut(page)
  await page.goto(`/reset-password#token=${await forget(member)}`)
  await submit(page, { 'New password': NEW_PASSWORD }, 'Change password')
  await heading(page, "Verify it's you")
  await say(page, 'Your password was changed')
  await press(page, 'Back')
  await say(page, 'Your password was changed, and you were signed out everywhere else. Sign in.')
  await submit(page, { Email: member.email, Password: NEW_PASSWORD }, 'Sign in')
  await giveCode(page, secret)
  await heading(page, 'Your account')
})
