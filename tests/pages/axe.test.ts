import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { PUBLIC_PATHS } from '../../src/pages/paths.ts'
import { enter, go, heading, openPages, press, SIGNED_IN, say, signIn, visit } from '../support/browser.ts'
import { addLargeCompany } from '../support/large-company.ts'
import { begin, signOut, useFactors } from './factor-steps.ts'

/** Runs axe on each page and step in two themes, and checks four sizes. With SCREENSHOTS=FOLDER, it saves pictures. */

const { service, openPage } = await openPages()
const { addApp, proveMailbox, requireFactors } = useFactors(service)
const { SCREENSHOTS } = process.env
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')
const company = await service.addCompany({ name: 'Plain' })
const strict = await service.addCompany({ name: 'Strict' })
await requireFactors(strict)

const OPEN = ['/sign-in', ...PUBLIC_PATHS, '/nothing']

/** Visits steps behind buttons: second factors, and pages that block members without one. */
async function visitSteps(page: Page, look: (step: string) => Promise<void>): Promise<void> {
  const [member, held] = [await service.addUser(company), await service.addUser(strict)]
  await page.goto('/sign-in')
  await enter(page, member)
  await go(page, 'Account')
  await proveMailbox(page)
  await press(page, 'Add a passkey')
  await look('adding a passkey')
  await press(page, 'Cancel')
  await addApp(page, { look })
  await page.getByRole('button', { name: /^Remove…/ }).waitFor()
  await look('an account with an app')
  await page.getByRole('button', { name: /^Remove…/ }).click()
  await look('removing the last one')
  service.clock.advance(16 * 60)
  await page.locator('dialog[open] .danger').click()
  const dialog = page.getByRole('dialog', { name: "Confirm it's you" })
  await dialog.getByLabel('Password').waitFor()
  await look('the proof')
  await press(dialog, 'Cancel')
  await press(page.getByRole('dialog'), 'Cancel')
  await signOut(page)
  await begin(page, member)
  await look('a code')
  await press(page, 'Use a recovery code')
  await look('a recovery code')
  await press(page, 'Back')

  await enter(page, held)
  await heading(page, 'Your company requires a second factor')
  await proveMailbox(page, look)
  await page.getByRole('button', { name: 'Add an app' }).waitFor()
  await look('adding the first one')
  await signOut(page)

  await enter(page, company)
  await go(page, 'Members')
  await press(page, `Manage ${member.email}`)
  await look('an opened member')
  await press(page, `Reset second factors of ${member.email}`)
  await look('a reset')
  await press(page.getByRole('dialog'), 'Cancel')
  await go(page, 'Company')
  await press(page, 'Change two-factor policy')
  await page.getByRole('radio', { name: 'Required for everyone' }).check()
  await look('a stricter policy')
}

/** The vertical position of each link in the navigation. */
const TOPS = "[...document.querySelectorAll('.bar nav a')].map((link) => link.getBoundingClientRect().top)"

/** Whether a value is so narrow that it runs down the page. */
const COLUMN_OF_LETTERS =
  "[...document.querySelectorAll('dd, .list td')].some((value) => value.offsetHeight > 6 * value.offsetWidth)"

/** 320 px is a 1280 px window at 400%. The last size doubles the text, and the next steps run there. */
const SIZES = [...[1280, 768, 320].map((width) => [width, '100%'] as const), [640, '200%'] as const]

/** The dark theme only changes colors. */
const THEMES = [
  ['dark', "runOnly: ['color-contrast', 'link-in-text-block'],"],
  ['light', ''],
] as const
/** The page behind a modal dialog was checked before it opened. */
const SHOWN = "document.querySelector('dialog:modal') ?? document"

/** Checks a page with axe in both themes, and whether it is too wide for a small window or large text. */
function openEyes(page: Page) {
  const faults: string[] = []
  async function save(path: string, how: string | number): Promise<void> {
    const name = `${path.replace(/\W+/g, '-').replace(/^-/, '')}-${how}.png`
    if (SCREENSHOTS) await page.screenshot({ path: join(SCREENSHOTS, name), fullPage: true })
  }
  async function look(path: string): Promise<void> {
    await page.setViewportSize({ width: 1280, height: 720 })
    await page.evaluate("document.documentElement.style.fontSize = ''")
    if (await page.evaluate('!globalThis.axe')) await page.addScriptTag({ path: AXE })
    for (const [colorScheme, options] of THEMES) {
      await page.emulateMedia({ colorScheme })
      const found = await page.evaluate<string[]>(
        `axe.run(${SHOWN}, { ${options} resultTypes: ['violations'] }).then(({ violations }) =>
          violations.map(({ id, nodes }) => id + ': ' + nodes[0].html))`,
      )
      faults.push(...found.map((fault) => `${path} in ${colorScheme}: ${fault}`))
      await save(path, colorScheme)
    }
    for (const [width, size] of SIZES) {
      await page.setViewportSize({ width, height: 740 })
      const [found = 0, ...tops] = await page.evaluate<number[]>(
        `document.documentElement.style.fontSize = '${size}', [document.documentElement.scrollWidth, ...${TOPS}]`,
      )
      if (found > width) faults.push(`${path} is ${found} wide at ${width}`)
      if (await page.evaluate(COLUMN_OF_LETTERS)) faults.push(`${path} has one letter per line at ${width}`)
      if (size === '100%' && new Set(tops).size > 1) faults.push(`${path} breaks its navigation at ${width}`)
      await save(path, width)
    }
  }
  return { look, expectNothing: () => expect(faults).toEqual([]) }
}

/** While a button fades, its contrast is low. */
const LIGHT = { colorScheme: 'light', reducedMotion: 'reduce', bypassCSP: true } as const

// The first test, because the browser signs its event at the real time, and the steps advance the service's clock.
test('long lists and their dialogs pass axe and fit small windows', async () => {
  const { page } = await openPage(LIGHT)
  const { look, expectNothing } = openEyes(page)
  // Leaves one seat for the invitation.
  const admin = await addLargeCompany(service, 499)
  const { accessToken: token } = await service.loginAs(admin)
  const invitation = { email: 'bob@large.example', role: 'viewer' }
  expect((await service.call('/auth/invitations', { token, json: invitation })).status).toBe(201)
  await signIn(page, admin)

  const rows = page.locator('.list-row')
  const dialog = page.locator('dialog[open]')
  const lookAt = async (button: string, leave = 'Cancel') => {
    await press(page, button)
    await dialog.waitFor()
    await look(button)
    await press(page.getByRole('dialog'), leave)
    await dialog.waitFor({ state: 'detached' })
  }
  await go(page, 'Members')
  await rows.nth(49).waitFor()
  const person = await rows.nth(26).locator('.list-name').textContent()
  await press(page, `Manage ${person}`)
  await look('the first of 499 members')
  for (const act of ['Disable', 'End all sessions of', 'Delete']) await lookAt(`${act} ${person}`)
  await lookAt('Invite people')
  await lookAt('Add service account')
  await page.getByRole('link', { name: 'Invitations 1' }).click()
  await page.locator('.list-row', { hasText: invitation.email }).waitFor()
  await look('an invitation')
  await lookAt('Withdraw the invitation for bob@large.example')

  await go(page, 'Activity')
  await rows.nth(99).waitFor()
  await look('the first of 5,000 entries')

  await go(page, 'Company')
  for (const button of [
    'Change two-factor policy',
    'Change idle limit',
    'Change handle',
    'End all… sessions',
  ])
    await lookAt(button)
  await go(page, 'Account')
  for (const button of ['Change name', 'Change email', 'Change password']) await lookAt(button)
  await go(page, 'Developer')
  await press(page, 'Create signing secret')
  await page.locator('.secret').waitFor()
  await look('a new secret')
  await lookAt('Sign out', 'Stay')
  await press(page, 'Watch events')
  // Events from before the watch are not shown.
  await say(page, 'No events yet.')
  await press(page, 'Send test event')
  await page.locator('summary', { hasText: 'test.event' }).click()
  await look('a received event')
  await lookAt('Replace secret…')
  expectNothing()
})

test('each page passes axe, small windows, and large text (WCAG 1.4.4, 1.4.10)', async () => {
  const { page } = await openPage(LIGHT)
  const { look, expectNothing } = openEyes(page)
  await visit(page, OPEN, look)
  await signIn(page, company)
  await visit(page, SIGNED_IN, look)
  await signOut(page)
  await visitSteps(page, look)
  expectNothing()
})

test('each guide passes axe, small windows, and large text (WCAG 1.4.4, 1.4.10)', async () => {
  const { page } = await openPage(LIGHT)
  const { look, expectNothing } = openEyes(page)
  await page.goto('/docs')
  const paths = await page.evaluate<string[]>(
    "[...document.querySelectorAll('#guides a')].map((a) => a.pathname)",
  )
  await visit(page, paths, look)
  expectNothing()
})
