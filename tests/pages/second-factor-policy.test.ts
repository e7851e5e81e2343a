import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { go, heading, openPages, press, say, submit } from '../support/browser.ts'
import { PASSWORD, type Person } from '../support/test-service.ts'
import { expectNoTraces, own, signInWithDevice, useFactors } from './factor-steps.ts'

/** Admins' changes to second factors, and their effect on other members. */

const { service, mailbox, openPage, openMailed, codeTo, giveCodeTo } = await openPages()
const { addPasskey, addApp, giveCode, requireFactors } = useFactors(service)

const HELD = 'Your company requires a second factor'

/** A signed-in user on a device that supports passkeys. */
async function openAs(person: Person, home?: string) {
  const opened = await openPage()
  await signInWithDevice(opened.page, person, { home })
  return opened
}

/** Chooses a policy in the dialog, which says what it does. */
async function choose(page: Page, setting: string, effect: string): Promise<void> {
  await go(page, 'Company')
  await press(page, 'Change two-factor policy')
  await page.getByRole('radio', { name: setting }).check()
  await page.getByRole('dialog').getByRole('status').getByText(effect).waitFor()
}
const STRICTER = 'This takes effect immediately'
const LOOSER = 'A stolen password is then enough to sign in'

test('members are blocked at their next click until they add a factor (ASVS 6.3.3)', async () => {
  const admin = await service.addCompany()
  const [member] = [await service.addUser(admin), await service.addUser(admin)]
  const { page: held } = await openAs(member, 'Your account')
  await go(held, 'Account')
  const { page } = await openAs(admin)

  await choose(page, 'Required for everyone', STRICTER)
  await say(page, "3 people don't have one yet, and must add one before they continue. You are one of them.")
  await press(page, 'Cancel')
  // An unconfirmed choice is neither kept nor saved.
  const row = page.getByRole('region', { name: 'Security' }).locator('dd')
  await row.getByText('Optional').waitFor()
  await page.reload()
  await row.getByText('Optional').waitFor()
  await choose(page, 'Required for everyone', STRICTER)
  await press(page, 'Require a second factor')
  await page.locator('.done:focus', { hasText: 'Saved. It takes effect immediately' }).waitFor()
  await row.getByText('Required for everyone').waitFor()
  await say(page, 'They must add one before they continue.')

  // This page was open the whole time, and its sign-in is no longer recent.
  service.clock.advance(16 * 60)
  await press(held, 'Change name')
  await submit(held, { Name: 'Bob of Held' }, 'Save name')
  await heading(held, HELD)
  expect(await held.getByRole('navigation').count()).toBe(0)
  await press(held, 'Add an app')
  await submit(held.getByRole('dialog', { name: "Confirm it's you" }), { Password: PASSWORD }, 'Continue')
  await press(held, 'Email me a code')
  await say(held, "We've emailed you a code.")
  const code = await codeTo(member.email)
  await submit(held, { 'Code from the email': '1234' }, 'Continue')
  await say(held, 'Code from the email must be the eight digits from the email.')
  // A wrong code is reported before the device creates anything.
  await submit(held, { 'Code from the email': '00000000' }, 'Continue')
  await say(held, 'Code from the email is wrong, used, or expired.')
  // A page that is opened again does not need another mail.
  await held.reload()
  await heading(held, HELD)
  await press(held, 'Add an app', 'I already have a code')
  await submit(held, { 'Code from the email': code }, 'Continue')
  // A user who started with one kind can switch to the other.
  await press(held, 'Cancel')
  const { secret, recoveryCodes } = await addApp(held)
  // Leads to the page from before.
  await heading(held, 'Your account')
  await own(held).getByText('Your company requires a second factor.').waitFor()
  expect(await held.getByRole('button', { name: /^Remove/ }).count()).toBe(0)
  await expectNoTraces(held, [code, secret, ...recoveryCodes])
})

test('blocked tabs continue together, and lists show who lacks a factor', async () => {
  const admin = await service.addCompany()
  const [asked, viewer] = [await service.addUser(admin, 'admin'), await service.addUser(admin)]
  const { page, context } = await openAs(admin)
  await choose(page, 'Required for admins', STRICTER)
  await press(page, 'Require a second factor')
  await say(page, 'Saved.')
  const second = await context.newPage()
  await second.goto('/members')
  await heading(second, HELD)
  // Browsers create no passkeys for pages in the background.
  await page.bringToFront()
  await page.goto('/members')
  await heading(page, HELD)
  await press(page, 'Add an app')
  await giveCodeTo(admin.email, page)
  await press(page, 'Cancel')
  await addPasskey(page)
  await heading(page, 'Members')
  await heading(second, 'Members')

  // The list marks members whom the policy requires to add a factor, and explains why.
  await say(page, 'Your company requires a second factor for admins')
  const row = ({ email }: Person) => page.locator('.list-row', { hasText: email })
  await row(asked).getByText('none, required').waitFor()
  await row(viewer).getByText('none', { exact: true }).waitFor()
  await row(admin).getByText('passkey').waitFor()
  await go(page, 'Company')
  await say(page, `Without a second factor: ${asked.email} (admin) and ${viewer.email}.`)
  await go(page, 'admins')
  await say(page, '1 member matches')
  await row(asked).waitFor()

  // A less strict policy asks, too.
  await choose(page, 'Optional', LOOSER)
  await press(page, 'Cancel')
  await say(page, 'Required for admins')
  await choose(page, 'Optional', LOOSER)
  await press(page, 'Loosen policy')
  await say(page, 'Saved.')
})

test('a session that began without a factor enters it and continues (ASVS 6.3.3)', async () => {
  const admin = await service.addCompany()
  const { page } = await openAs(admin)
  await go(page, 'Account')
  const { secret } = await addApp(page)
  await requireFactors(admin)
  const sessions = service.db.updateTable('sessions').where('user_id', '=', admin.userId)
  await sessions.set({ amr: ['pwd'] }).execute()
  await page.goto('/members')
  await heading(page, HELD)
  await submit(page, { Password: PASSWORD }, 'Continue')
  await giveCode(page, secret)
  await heading(page, 'Members')
})

test("an admin resets a member's second factors by link (ASVS 6.4.4, 6.4.6, 6.5.6)", async () => {
  const admin = await service.addCompany()
  const member = await service.addUser(admin)
  const { page: atMember } = await openAs(member, 'Your account')
  await go(atMember, 'Account')
  await addPasskey(atMember)
  // Waits for the notice about the factor.
  await mailbox.mailTo(member.email)
  const { page } = await openAs(admin)
  await go(page, 'Members')
  const row = page.locator('.list-row', { hasText: member.email })
  await row.getByText('passkey').waitFor()
  await press(page, `Manage ${member.email}`, `Reset second factors of ${member.email}`)
  const dialog = page.getByRole('dialog', { name: `Reset second factors of ${member.email}?` })
  await dialog.getByText('We email them a link to choose a new password.').waitFor()
  await press(dialog, 'Reset second factors')
  await say(page, 'Reset. A link to choose a new password is on its way.')
  await row.getByText('none').waitFor()

  await press(atMember, 'Change name', 'Save name')
  await say(atMember, 'An admin of your company ended this session.')
  await openMailed(atMember, member.email)
  await submit(atMember, { 'New password': 'another correct horse' }, 'Change password')
  await heading(atMember, 'Your account')

  // The activity page describes the actions in words.
  await go(page, 'Activity')
  await page.getByRole('cell', { name: /reset the second factors of/ }).waitFor()
  await page.getByRole('cell', { name: /added a second factor.*passkey/ }).waitFor()
  expect(await page.locator('tbody').innerText()).not.toMatch(/[a-z]_[a-z]/)
})
