import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import {
  addDevice,
  enter,
  fill,
  go,
  heading,
  offerNothing,
  openPages,
  press,
  say,
  type,
} from '../support/browser.ts'
import { PASSWORD, type Person } from '../support/test-service.ts'
import { begin, expectNoTraces, own, signOut, useFactors } from './factor-steps.ts'

/** What admins do about second factors on the pages, and what that means to others, in real browsers. */

const { origin, service, mailbox, openPage, openMailed } = await openPages()
const { addPasskey, addApp, giveCode } = useFactors(service)

const HELD = 'Your company requires a second factor'

/** Somebody who is signed in, on a device that makes passkeys. */
async function openAs(person: Person, home = 'Developer settings') {
  const browser = await openPage(origin)
  const { page } = browser
  await offerNothing(page)
  const device = await addDevice(page)
  await page.goto(`${origin}/sign-in`)
  await enter(page, person)
  await heading(page, home)
  return { ...browser, device }
}

/** Changes the policy on the page for it. */
async function choose(page: Page, setting: string): Promise<void> {
  await go(page, 'Company')
  await page.getByRole('radio', { name: setting }).check()
  await press(page, 'Save')
}

/** Asks for the mailed code, and reads it. */
async function mailedCode(page: Page, person: Person): Promise<string> {
  await press(page, 'Email me a code')
  return await readCode(page, person)
}

async function readCode(page: Page, { email }: Person): Promise<string> {
  await say(page, "We've emailed you a code.")
  const { email: mail } = await mailbox.mailTo(email, 'Your code for')
  const [code = ''] = /\d{4} \d{4}/.exec(mail.text ?? '') ?? []
  expect(code).not.toBe('')
  return code
}

test('an admin asks everyone for a second factor, who are held at their next click until they have one (ASVS 6.3.3)', async () => {
  const admin = await service.addCompany()
  const [member, other] = [await service.addUser(admin), await service.addUser(admin)]
  const atMember = await openAs(member, 'Your account')
  await go(atMember.page, 'Account')
  const { page, expectClean } = await openAs(admin)

  await go(page, 'Company')
  await say(page, '3 people have none yet, and must add one before they go on. You are one of them.')
  await say(page, "You don't have one yet, and must add one before you go on.")
  await say(
    page,
    /^Without a second factor: .+ \(admin\), user\d+@company.example, and user\d+@company.example\.$/,
  )
  await choose(page, 'Required for everyone')
  const dialog = page.getByRole('dialog', { name: 'Require two-factor authentication for everyone?' })
  await dialog.getByText('3 people have none yet').waitFor()
  await press(dialog, 'Cancel')
  const { secondFactor } = await service.db
    .selectFrom('companies')
    .select('second_factor_policy as secondFactor')
    .where('company_id', '=', admin.companyId)
    .executeTakeFirstOrThrow()
  expect(secondFactor).toBe('optional')
  // What was not confirmed does not stay chosen.
  await page.getByRole('radio', { name: 'Optional', checked: true }).waitFor()
  await choose(page, 'Required for everyone')
  await press(dialog, 'Require')
  await say(page, 'Saved. It takes effect immediately')
  await mailbox.mailTo(admin.email)

  // The page that was open all the time; its sign-in is long ago.
  const held = atMember.page
  service.clock.advance(16 * 60)
  await fill(held, { Name: 'Bob of Held' })
  await press(held, 'Save name')
  await heading(held, HELD)
  expect(await held.getByRole('navigation').count()).toBe(0)
  await press(held, 'Email me a code')
  const proof = held.getByRole('dialog', { name: "Confirm it's you" })
  await type(proof.getByLabel('Password'), PASSWORD)
  await press(proof, 'Continue')
  const code = await readCode(held, member)

  await fill(held, { 'Code from the email': '1234' })
  await press(held, 'Continue')
  await say(held, 'Code from the email must be the eight digits from the email.')
  // A wrong one is told before a device makes anything.
  await fill(held, { 'Code from the email': '00000000' })
  await press(held, 'Continue')
  await say(held, 'Code from the email is wrong, used or expired.')
  // A page that is opened again does not need another mail.
  await held.reload()
  await heading(held, HELD)
  await press(held, 'I have a code already')
  await fill(held, { 'Code from the email': code })
  await press(held, 'Continue')
  // And who begins with one kind can take the other.
  await press(held, 'Add an app')
  await press(held, 'Cancel')
  const { secret, recoveryCodes } = await addApp(held)
  // Back where they were.
  await heading(held, 'Your account')
  await own(held).getByText('Your company requires a second factor.').waitFor()
  expect(await held.getByRole('button', { name: /^Remove/ }).count()).toBe(0)
  await expectNoTraces(held, [code, code.replace(' ', ''), secret, ...recoveryCodes])

  // The admin is asked as well, and another member at sign-in. A reload changes nothing.
  await go(page, 'Members')
  await heading(page, HELD)
  await page.reload()
  await heading(page, HELD)
  const third = await openAs(other, HELD)
  const otherCode = await mailedCode(third.page, other)
  await fill(third.page, { 'Code from the email': otherCode })
  await press(third.page, 'Continue')
  await addPasskey(third.page)
  await heading(third.page, 'Your account')
  await signOut(third.page)
  await begin(third.page, other)
  await press(third.page, 'Use your passkey')
  await heading(third.page, 'Your account')

  // Who does not want to can leave.
  await signOut(page)
  for (const one of [{ expectClean }, atMember, third]) one.expectClean()
})

test('two tabs that are held go on together', async () => {
  const admin = await service.addCompany()
  const [asked, viewer] = [await service.addUser(admin, 'admin'), await service.addUser(admin)]
  const { page, context, expectClean } = await openAs(admin)
  await choose(page, 'Required for admins')
  await press(page.getByRole('dialog'), 'Require')
  await say(page, 'Saved.')
  await mailbox.mailTo(admin.email)
  const second = await context.newPage()
  await second.goto(`${origin}/members`)
  await heading(second, HELD)
  // A browser makes no passkeys for a page that nobody looks at.
  await page.bringToFront()
  await go(page, 'Members')
  await heading(page, HELD)
  const code = await mailedCode(page, admin)
  await fill(page, { 'Code from the email': code })
  await press(page, 'Continue')
  await addPasskey(page)
  await heading(page, 'Members')
  await heading(second, 'Members')

  // Whom the policy asks is marked in the list, and why is said above it.
  await say(page, 'Your company requires a second factor for admins')
  const row = ({ email }: Person) => page.locator('.list-row', { hasText: email })
  await row(asked).getByText('none, required').waitFor()
  await row(viewer).getByText('none', { exact: true }).waitFor()
  await row(admin).getByText('passkey').waitFor()
  await go(page, 'Company')
  await say(page, `Without a second factor: ${asked.email} (admin) and ${viewer.email}.`)
  await go(page, 'admins')
  await say(page, '2 members match')

  // What asks for less is saved at once.
  await choose(page, 'Optional')
  await say(page, 'Saved.')
  expectClean()
})

test('a session that began without the factor its user has proves it, and goes on (ASVS 6.3.3)', async () => {
  const admin = await service.addCompany()
  const { page, expectClean } = await openAs(admin)
  await go(page, 'Account')
  const { secret } = await addApp(page)
  await service.db
    .updateTable('companies')
    .set({ second_factor_policy: 'everyone' })
    .where('company_id', '=', admin.companyId)
    .execute()
  await service.db
    .updateTable('sessions')
    .set({ amr: ['pwd'] })
    .where('user_id', '=', admin.userId)
    .execute()
  await go(page, 'Members')
  await heading(page, HELD)
  await fill(page, { Password: PASSWORD })
  await press(page, 'Continue')
  await giveCode(page, secret)
  await heading(page, 'Members')
  expectClean()
})

test('an admin resets the second factors of a member, who gets a link and begins anew (ASVS 6.4.4, 6.4.6, 6.5.6)', async () => {
  const admin = await service.addCompany()
  const member = await service.addUser(admin)
  const atMember = await openAs(member, 'Your account')
  await go(atMember.page, 'Account')
  await addPasskey(atMember.page)
  await mailbox.mailTo(member.email)
  const { page, expectClean } = await openAs(admin)
  await go(page, 'Members')
  const row = page.locator('.list-row', { hasText: member.email })
  await row.getByText('passkey').waitFor()
  await press(page, `Manage ${member.email}`)
  await press(page, `Reset second factors of ${member.email}`)
  const dialog = page.getByRole('dialog', { name: `Reset second factors of ${member.email}?` })
  await dialog.getByText('a link to choose a new password is emailed to them').waitFor()
  await press(dialog, 'Reset second factors')
  await say(page, 'Reset. A link to choose a new password is on its way.')
  await row.getByText('none').waitFor()

  await press(atMember.page, 'Save name')
  await say(atMember.page, 'An admin of your company ended this session.')
  await press(atMember.page, 'Sign in with a passkey')
  await say(atMember.page, "This passkey wasn't accepted")
  await openMailed(atMember.page, member.email)
  const password = 'another correct horse'
  await fill(atMember.page, { 'New password': password })
  await press(atMember.page, 'Change password')
  await heading(atMember.page, 'Your account')

  // What was done is told in words.
  await go(page, 'Activity')
  await page.getByRole('cell', { name: /reset the second factors of/ }).waitFor()
  await page.getByRole('cell', { name: /added a second factor.*passkey/ }).waitFor()
  expect(await page.locator('tbody').innerText()).not.toMatch(/[a-z]_[a-z]/)
  expectClean()
  atMember.expectClean()
})
