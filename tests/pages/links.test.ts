import { expect, test } from 'vitest'
import { go, heading, openPages, press, say, signIn, submit, tracesIn } from '../support/browser.ts'
import { NEW_PASSWORD, PASSWORD, type Person } from '../support/test-service.ts'
import { signOut, useFactors } from './factor-steps.ts'

/** Links that were mailed: whose they are, what they say if they are dead, and who is signed in meanwhile. */

const { service, mailbox, openPage } = await openPages()
const { addApp, giveCode } = useFactors(service)

/** A link to reset a password. */
async function forget({ email, companyId }: Person): Promise<string> {
  service.clock.advance(1)
  await service.call('/auth/password/forgot', { json: { companyId, email } })
  return (await mailbox.mailTo(email, 'Reset your password')).token
}

test('a used or unknown link says so before anything is typed', async () => {
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
  // A page that acts when its button is pressed finds it out then.
  await page.goto('/confirm-email#token=confirm_nonsense')
  await press(page, 'Use this email')
  await heading(page, 'Link expired')
  // Opened again, a page has no token: it is kept nowhere.
  const token = await forget(admin)
  await page.goto(`/reset-password#token=${token}`)
  await page.getByLabel('New password').waitFor()
  expect(await tracesIn(page)).not.toContain(token)
  await page.reload()
  await say(page, 'Open the link in the email again.')
  await heading(page, 'Choose a new password')
  // A link can be opened twice, as long as it was not used, also where its page is shown: that loads itself anew.
  const loaded = page.waitForEvent('load')
  await page.goto(`/reset-password#token=${token}`)
  await loaded
  await submit(page, { 'New password': PASSWORD }, 'Change password')
  await heading(page, 'Developer settings')
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
  // Nothing has happened.
  await page.goto(`/reset-password#token=${token}`)
  await press(page, 'Continue with the link')
  await submit(page, { 'New password': NEW_PASSWORD }, 'Change password')
  await heading(page, 'Developer settings')
  expect(await page.locator('.who').innerText()).toContain(admin.email)

  // Whose own link it is, is not asked.
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
  await press(page, 'Back to sign-in')
  await say(page, 'Your password was changed, and you were signed out everywhere else. Sign in.')
  await submit(page, { Email: member.email, Password: NEW_PASSWORD }, 'Sign in')
  await giveCode(page, secret)
  await heading(page, 'Your account')
})
