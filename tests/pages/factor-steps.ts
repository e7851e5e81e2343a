import type { Page } from 'playwright-core'
import { expect } from 'vitest'
import {
  addDevice,
  enter,
  heading,
  offerNothing,
  press,
  say,
  signIn,
  submit,
  tracesIn,
} from '../support/browser.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { codeAt } from '../support/second-factors.ts'
import type { Person, TestService } from '../support/test-service.ts'

/** The section on the account page. */
export const own = (page: Page) => page.getByRole('region', { name: 'Second factors' })

type Arrival = { home?: string | undefined; hasOffers?: boolean }

/** Signs in on a device that supports passkeys. Without offers, it uses passkeys only after a button is pressed. */
export async function signInWithDevice(page: Page, person: Person, { home, hasOffers }: Arrival = {}) {
  if (!hasOffers) await offerNothing(page)
  const device = await addDevice(page)
  await signIn(page, person, { home })
  return device
}

/** Reads the recovery codes, and confirms that they are stored. */
export async function storeCodes(page: Page): Promise<string[]> {
  const shown = page.locator('.codes code')
  await shown.nth(9).waitFor()
  const codes = await shown.allTextContents()
  await press(page, "I've stored them")
  await shown.first().waitFor({ state: 'detached' })
  return codes
}

export async function signOut(page: Page): Promise<void> {
  await press(page, 'Sign out')
  await say(page, "You're signed out.")
}

export async function begin(page: Page, person: Person): Promise<void> {
  await enter(page, person)
  await heading(page, "Verify it's you")
}

/** The browser stores none of these secrets (ASVS 14.2.1). */
export async function expectNoTraces(page: Page, secrets: string[]): Promise<void> {
  const traces = await tracesIn(page)
  for (const secret of secrets) expect(traces).not.toContain(secret)
}

export function useFactors(service: TestService) {
  const { clock } = service

  /** Starts with an app, which requires the emailed code for a first factor. */
  async function proveMailbox(page: Page, look = async (_step: string) => {}): Promise<void> {
    const hasCode = page.getByRole('button', { name: 'I already have a code' })
    const secret = page.getByRole('img', { name: /QR code/ })
    await press(page, 'Add an app')
    await hasCode.or(secret).first().waitFor()
    if ((await hasCode.count()) > 0) {
      await hasCode.click()
      await look('a mailed code')
      await giveMailedCode(page)
    }
    await secret.waitFor()
    await press(page, 'Cancel')
  }

  async function giveMailedCode(page: Page): Promise<void> {
    const cookies = await page.context().cookies()
    const cookie = cookies.find(({ name }) => name === '__Host-session')?.value ?? ''
    const code = await mailedCodeOf(service, { cookie }, 'mailbox_code')
    await submit(page, { 'Code from the email': code }, 'Continue')
  }

  async function addPasskey(page: Page): Promise<string[]> {
    await proveMailbox(page)
    await press(page, 'Add a passkey', 'Create passkey')
    return await storeCodes(page)
  }

  /** Adds an authenticator app with the secret that the page shows. `look` inspects each step. */
  async function addApp(page: Page, { isFirst = true, look = async (_step: string) => {} } = {}) {
    await proveMailbox(page)
    await press(page, 'Add an app')
    await page.getByRole('img', { name: /QR code/ }).waitFor()
    await look('adding an app')
    const secret = ((await page.locator('.secret code').textContent()) ?? '').replaceAll(' ', '')
    await giveCode(page, secret, 'Add the app')
    await say(page, isFirst ? 'Store your recovery codes' : 'Second factor added')
    await look('what an added app gives')
    return { secret, recoveryCodes: isFirst ? await storeCodes(page) : [] }
  }

  /** Enters the current code, and moves the clock to the next one. */
  async function giveCode(page: Page, secret: string, action = 'Continue'): Promise<string> {
    const code = codeAt(secret, clock.now())
    await submit(page, { Code: code }, action)
    // The service reads the clock while it responds.
    await expect.poll(() => page.getByRole('button', { name: 'One moment…' }).count()).toBe(0)
    clock.advance(30)
    return code
  }

  async function requireFactors({ companyId }: Person): Promise<void> {
    const changed = service.db.updateTable('companies').set({ second_factor_policy: 'everyone' })
    await changed.where('company_id', '=', companyId).execute()
  }
  return { proveMailbox, giveMailedCode, addPasskey, addApp, giveCode, requireFactors }
}
