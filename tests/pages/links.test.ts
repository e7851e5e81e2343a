import { expect, test } from 'vitest'
import { go, heading, openPages, press, say, signIn, submit, tracesIn } from '../support/browser.ts'
import { PASSWORD } from '../support/test-service.ts'
import { signOut, useFactors } from './factor-steps.ts'

/** Links that were mailed: whose they are, what they say if they are dead, and who is signed in meanwhile. */

const { service, mailbox, openPage, openMailed } = await openPages()
const { addApp, giveCode } = useFactors(service)

/** A link to reset a password. */
async function forget(email: string, companyId: string): Promise<string> {
  service.clock.advance(1)
  await service.call('/auth/password/forgot', { json: { companyId, email } })
  return (await mailbox.mailTo(email, 'Reset your password')).token
}

test('an expired, used, or replaced link says so before a password is typed', async () => {
  const admin = await service.addCompany()
  const { page } = await openPage()
  const used = await forget(admin.email, admin.companyId)
  const newPassword = 'another correct horse'
  await service.call('/auth/password/reset', { json: { token: used, newPassword } })
  const replaced = await forget(admin.email, admin.companyId)
  await forget(admin.email, admin.companyId)
  for (const token of [used, replaced, 'reset_nonsense']) {
    // Else the page of the one before would be there until it loads itself anew.
    await page.goto('about:blank')
    await page.goto(`/reset-password#token=${token}`)
    await heading(page, 'Link expired')
    await say(page, 'This link has expired, was already used, or was replaced by a newer email.')
    expect(await page.locator('input').count()).toBe(0)
    expect(await page.getByRole('button', { name: 'Try again' }).count()).toBe(0)
    await page.getByRole('link', { name: 'Get another link' }).waitFor()
  }
  await page.goto('/accept-invitation#token=invite_nonsense')
  await say(
    page,
    "If you've already joined, sign in. If not, ask the person who invited you to send a new one.",
  )
  // A page that acts when its button is pressed finds it out then.
  await page.goto('/confirm-email#token=confirm_nonsense')
  await press(page, 'Use this email')
  await heading(page, 'Link expired')
  // Opened again, a page has no token: it is kept nowhere.
  const token = await forget(admin.email, admin.companyId)
  await page.goto(`/reset-password#token=${token}`)
  await page.getByLabel('New password').waitFor()
  expect(await tracesIn(page)).not.toContain(token)
  await page.reload()
  await say(page, 'Please open the link in the email again.')
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
  const token = await forget(admin.email, admin.companyId)
  await page.goto(`/reset-password#token=${token}`)
  await heading(page, "You're signed in already")
  for (const text of ['Other Inc', other.email, admin.email])
    await page.getByText(text, { exact: true }).first().waitFor()
  await say(page, 'If you continue and sign in with it, this browser is signed out of Other Inc.')
  await go(page, 'Back to Other Inc')
  await heading(page, 'Developer settings')
  // Nothing has happened.
  await page.goto(`/reset-password#token=${token}`)
  await press(page, 'Continue with the link')
  await submit(page, { 'New password': 'another correct horse' }, 'Change password')
  await heading(page, 'Developer settings')
  expect(await page.locator('.who').innerText()).toContain(admin.email)

  // Whose own link it is, is not asked.
  const own = await forget(admin.email, admin.companyId)
  await page.goto(`/reset-password#token=${own}`)
  await page.getByLabel('New password').waitFor()
})

test('the password chosen at an emailed link signs in, with a second factor too', async () => {
  const admin = await service.addCompany({ name: 'Joined' })
  const { accessToken: token } = await service.loginAs(admin)
  const email = 'new@joined.example'
  await service.call('/auth/invitations', { token, json: { email, role: 'viewer' } })
  const { page } = await openPage()
  await openMailed(page, email)
  await heading(page, 'Join Joined')
  await submit(page, { 'Your name': 'New', Password: PASSWORD }, 'Join')
  await heading(page, 'Your account')
  await say(page, 'Sees risks and analytics, and changes nothing.')
  await go(page, 'Developer')
  await say(page, 'An admin of your company creates the signing secret')
  // The company is known from then on.
  await press(page, 'Sign out')
  await say(page, 'Signing in to Joined')
  await submit(page, { Email: email, Password: PASSWORD }, 'Sign in')
  await heading(page, 'Your account')

  // What the second step comes after is said, there and on the way back.
  const { secret } = await addApp(page)
  await signOut(page)
  await page.goto(`/reset-password#token=${await forget(email, admin.companyId)}`)
  await say(page, 'you can send them again from Members')
  const password = 'another correct horse'
  await submit(page, { 'New password': password }, 'Change password')
  await heading(page, "Verify it's you")
  await say(page, 'Your password is changed')
  await press(page, 'Back to sign-in')
  await say(page, 'Your password is changed, and you were signed out everywhere else. Sign in.')
  await submit(page, { Email: email, Password: password }, 'Sign in')
  await giveCode(page, secret)
  await heading(page, 'Your account')
})
