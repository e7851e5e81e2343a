import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import { SIGNED_IN_PAGES } from '../../src/pages/paths.ts'
import { launchBrowser } from './chromium.ts'
import { openDoor } from './door.ts'
import { codeIn } from './mail-code.ts'
import { openMailbox } from './mailbox.ts'
import { openTestService, type Person } from './test-service.ts'

/** The pages of a service in a real browser, and what they must not do. */

/** A service whose pages a browser can use, with the mails that it sends. */
export async function openPages() {
  const { origin, lead } = await openDoor()
  const mailbox = await openMailbox()
  const service = await openTestService({ env: { SMTP_URL: mailbox.url, PUBLIC_URL: origin } })
  for (const app of service.apps) lead(app.server)
  /** Opens the page of the next link that is mailed to an address, as a click in the mail does. */
  async function openMailed(page: Page, address: string): Promise<{ token: string }> {
    for (;;) {
      const { email, token } = await mailbox.mailTo(address)
      const [link] = /http:\/\/localhost\S+/.exec(email.text ?? '') ?? []
      // Notices have none.
      if (link === undefined) continue
      await page.goto(link)
      return { token }
    }
  }
  const codeTo = async (address: string) => codeIn(await mailbox.mailTo(address, 'Your code for'))
  /** Asks for the code that is mailed to an address, and gives it. */
  async function giveCodeTo(address: string, part: Part): Promise<void> {
    await press(part, 'Email me a code')
    await submit(part, { 'Code from the email': await codeTo(address) }, 'Continue')
  }
  const openPage = await openBrowser(origin)
  /** A company whose admin is signed in. */
  async function openAdmin({ remembers = false } = {}) {
    const admin = await service.addCompany({ name: 'Acme' })
    const opened = await openPage()
    await signIn(opened.page, admin, { remembers })
    return { admin, ...opened }
  }
  return { origin, mailbox, service, openMailed, codeTo, giveCodeTo, openPage, openAdmin }
}

/** A page, or a part of it. */
type Part = Page | Locator

export const heading = (page: Page, name: string) =>
  page.getByRole('heading', { level: 1, name, exact: true }).waitFor()
export const say = (part: Part, text: string | RegExp) => part.getByText(text).first().waitFor()
export const press = async (part: Part, ...names: string[]) => {
  for (const name of names) await part.getByRole('button', { name, exact: true }).click()
}
export const go = (page: Page, name: string) => page.getByRole('link', { name, exact: true }).first().click()

/** Signs in, also where another company is remembered. */
export async function enter(page: Page, { companyId, email, password }: Omit<Person, 'userId'>) {
  const other = page.getByRole('button', { name: 'Not your company?' })
  const company = page.getByLabel('Company', { exact: true })
  await other.or(company).first().waitFor()
  if (await other.isVisible()) await other.click()
  await submit(page, { Company: companyId, Email: email, Password: password }, 'Sign in')
}

/** Opens the sign-in page, signs in, and waits for the page that follows. */
export async function signIn(
  page: Page,
  person: Omit<Person, 'userId'>,
  { home = 'Developer settings', remembers = false }: { home?: string | undefined; remembers?: boolean } = {},
): Promise<void> {
  await page.goto('/sign-in')
  if (remembers) await page.getByLabel('Remember my company on this device').check()
  await enter(page, person)
  await heading(page, home)
}

/** All that a script of the page, or who looks into the browser later, finds of secrets. */
export async function tracesIn(page: Page): Promise<string> {
  const history = await page.context().newCDPSession(page)
  const { entries } = await history.send('Page.getNavigationHistory')
  const kept = await page.evaluate<string>(`(async () => JSON.stringify([
    location.href, { ...localStorage }, { ...sessionStorage }, document.cookie, window.name, history.state,
    await caches.keys(), await indexedDB.databases(),
  ]))()`)
  return `${kept} ${entries.map(({ url, title }) => `${url} ${title}`).join(' ')}`
}

export async function fill(part: Part, values: Record<string, string>): Promise<void> {
  await typeAll(
    Object.entries(values).map(([label, value]) => [part.getByLabel(label, { exact: true }).first(), value]),
  )
}

/** Fills a form, and presses its button. */
export async function submit(part: Part, values: Record<string, string>, button: string): Promise<void> {
  await fill(part, values)
  await press(part, button)
}

export async function type(field: Locator, value: string): Promise<void> {
  await typeAll([[field, value]])
}

/** The page may move the focus meanwhile: what is typed then goes elsewhere. */
async function typeAll(wanted: [Locator, string][]): Promise<void> {
  const typed = async () => {
    for (const [field, value] of wanted) await field.fill(value)
    return await Promise.all(wanted.map(([field]) => field.inputValue()))
  }
  await expect.poll(typed).toEqual(wanted.map(([, value]) => value))
}

/** A device whose user is known to it, and which keeps passkeys. What asks for one gets it at once. */
export async function addDevice(page: Page) {
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('WebAuthn.enable', { enableUI: false })
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  return {
    /** From now on the user refuses, or is not the one that the device knows. */
    refuse: () => cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false }),
    accept: () => cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true }),
    passkeys: async () => (await cdp.send('WebAuthn.getCredentials', { authenticatorId })).credentials,
  }
}

/** The device answers at once, also where passkeys are only offered. So those who press a button get no offer. */
export async function offerNothing(page: Page): Promise<void> {
  await page.addInitScript('PublicKeyCredential.isConditionalMediationAvailable = async () => false')
}

let launched: Promise<Browser> | undefined

async function openBrowser(origin: string) {
  // All files of a worker share one, which ends with the worker: pages have contexts of their own.
  launched ??= launchBrowser()
  const browser = await launched

  /**
   * Opens a page that shares nothing with others. Errors of scripts, refusals by the content security policy, and requests to
   * other servers fail the test.
   */
  return async (options: BrowserContextOptions = {}) => {
    const context = await browser.newContext({ baseURL: origin, ...options })
    // As long as other tests wait for what they are about.
    context.setDefaultTimeout(100_000)
    // Pages that stay open would go on asking the service.
    onTestFinished(() => context.close())
    const page: Page = await context.newPage()
    const faults: string[] = []
    onTestFinished(() => expect(faults).toEqual([]))
    page.on('pageerror', ({ message }) => faults.push(message))
    page.on('console', (message) => {
      // The browser says this of every answer from 400 on, also of those that a page expects.
      const isAnswer = message.text().startsWith('Failed to load resource')
      if (message.type() === 'error' && !isAnswer) faults.push(message.text())
    })
    page.on('request', (request) => {
      if (!request.url().startsWith(origin) && !/^(?:data|blob):/.test(request.url()))
        faults.push(request.url())
    })
    // Only files, which are the same for everybody, may be kept.
    page.on('response', (response) => {
      const isKept = response.headers()['cache-control'] !== 'no-store'
      if (isKept && !response.url().startsWith(`${origin}/assets/`)) faults.push(`kept: ${response.url()}`)
    })
    return { page, context }
  }
}

/** The pages of those who are signed in. */
export const SIGNED_IN = Object.keys(SIGNED_IN_PAGES)

/** Goes to each page, and looks at it when nothing more is loaded and what folds is open. */
export async function visit(
  page: Page,
  paths: string[],
  look: (path: string) => Promise<void>,
): Promise<void> {
  for (const path of paths) {
    await page.goto(path)
    await page.locator('h1').waitFor()
    await page.waitForLoadState('networkidle')
    await expect.poll(() => page.getByText('Loading…').count()).toBe(0)
    for (const summary of await page.locator('details > summary').all()) await summary.click()
    await look(path)
  }
}
