import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import { SIGNED_IN_PAGES } from '../../src/pages/paths.ts'
import { launchBrowser } from './chromium.ts'
import { openDoor } from './door.ts'
import { codeIn } from './mail-code.ts'
import { openMailbox } from './mailbox.ts'
import { openTestService, type Person } from './test-service.ts'

/** Opens a service's pages in a real browser, and checks rules for every page. */

/** A service whose pages a browser can open, with the emails that it sends. */
export async function openPages() {
  const { origin, lead } = await openDoor()
  const mailbox = await openMailbox()
  const service = await openTestService({ env: { SMTP_URL: mailbox.url, PUBLIC_URL: origin } })
  for (const app of service.apps) lead(app.server)
  /** Opens the page of the next emailed link, like a click in the email. */
  async function openMailed(page: Page, address: string): Promise<{ token: string }> {
    for (;;) {
      const { email, token } = await mailbox.mailTo(address)
      const [link] = /http:\/\/localhost\S+/.exec(email.text ?? '') ?? []
      // Notices have no link.
      if (link === undefined) continue
      await page.goto(link)
      return { token }
    }
  }
  const codeTo = async (address: string) => codeIn(await mailbox.mailTo(address, 'Your code for'))
  /** Requests an emailed code, and enters it. */
  async function giveCodeTo(address: string, part: Part): Promise<void> {
    await press(part, 'Email me a code')
    await submit(part, { 'Code from the email': await codeTo(address) }, 'Continue')
  }
  const openPage = await openBrowser(origin)
  async function openAdmin({ remembers = false } = {}) {
    const admin = await service.addCompany({ name: 'Acme' })
    const opened = await openPage()
    await signIn(opened.page, admin, { remembers })
    return { admin, ...opened }
  }
  return { origin, mailbox, service, openMailed, codeTo, giveCodeTo, openPage, openAdmin }
}

type Part = Page | Locator

export const heading = (page: Page, name: string) =>
  page.getByRole('heading', { level: 1, name, exact: true }).waitFor()
export const say = (part: Part, text: string | RegExp) => part.getByText(text).first().waitFor()
export const press = async (part: Part, ...names: string[]) => {
  for (const name of names) await part.getByRole('button', { name, exact: true }).click()
}
export const go = (page: Page, name: string) => page.getByRole('link', { name, exact: true }).first().click()

/** Signs in, even if the page remembers a different company. */
export async function enter(page: Page, { companyId, email, password }: Omit<Person, 'userId'>) {
  const other = page.getByRole('button', { name: 'Not your company?' })
  const company = page.getByLabel('Company', { exact: true })
  await other.or(company).first().waitFor()
  if (await other.isVisible()) await other.click()
  await submit(page, { Company: companyId, Email: email, Password: password }, 'Sign in')
}

/** Opens a person's home page. Only if their company is to be remembered, it comes from the sign-in page. */
export async function signIn(
  page: Page,
  person: Omit<Person, 'userId'>,
  { home = 'Developer settings', remembers = false }: { home?: string | undefined; remembers?: boolean } = {},
): Promise<void> {
  if (remembers) {
    await page.goto('/sign-in')
    await page.getByLabel('Remember my company on this device').check()
    await enter(page, person)
  } else {
    await receiveCookie(page, person)
    await page.goto('/')
  }
  await heading(page, home)
}

/** Signs the browser in without its pages, which also leave a mark that someone is signed in. */
export async function receiveCookie(page: Page, { companyId, email, password }: Omit<Person, 'userId'>) {
  const options = { headers: { 'x-session-mode': 'cookie' }, data: { companyId, email, password } }
  expect((await page.context().request.post('/api/auth/login', options)).status()).toBe(200)
}

/** Everywhere that scripts, or later users of the browser, could find secrets. */
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

export async function submit(part: Part, values: Record<string, string>, button: string): Promise<void> {
  await fill(part, values)
  await press(part, button)
}

export async function type(field: Locator, value: string): Promise<void> {
  await typeAll([[field, value]])
}

/** If the page moves the focus in between, the typed text goes to the wrong field. */
async function typeAll(wanted: [Locator, string][]): Promise<void> {
  const typed = async () => {
    for (const [field, value] of wanted) await field.fill(value)
    return await Promise.all(wanted.map(([field]) => field.inputValue()))
  }
  await expect.poll(typed).toEqual(wanted.map(([, value]) => value))
}

/** A device that recognizes its user and stores passkeys. It responds to every request immediately. */
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
    /** After this, the user refuses, or is not the one that the device knows. */
    refuse: () => cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false }),
    accept: () => cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true }),
    passkeys: async () => (await cdp.send('WebAuthn.getCredentials', { authenticatorId })).credentials,
  }
}

/** The device would respond immediately even to offers, so tests that press a button turn offers off. */
export async function offerNothing(page: Page): Promise<void> {
  await page.addInitScript('PublicKeyCredential.isConditionalMediationAvailable = async () => false')
}

/** Translates the page as browsers do: each text node is replaced, also later ones. */
export async function translate(page: Page): Promise<void> {
  await page.addInitScript(`
    const translate = (root) => {
      const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
      const texts = []
      while (walker.nextNode()) texts.push(walker.currentNode)
      if (root.nodeType === Node.TEXT_NODE) texts.push(root)
      for (const text of texts) {
        if (!text.data.trim() || text.parentElement?.closest('font, [translate=no], noscript') !== null) continue
        const font = document.createElement('font')
        font.append(document.createElement('font'))
        font.firstChild.textContent = text.data
        text.replaceWith(font)
      }
    }
    addEventListener('DOMContentLoaded', () => {
      translate(document.body)
      const look = (records) => records.flatMap(({ addedNodes }) => [...addedNodes]).forEach(translate)
      new MutationObserver(look).observe(document.body, { childList: true, subtree: true })
    })`)
}

let launched: Promise<Browser> | undefined

/** All files of a worker share one browser, because pages have their own contexts. */
export async function shareBrowser(): Promise<Browser> {
  launched ??= launchBrowser()
  return await launched
}

async function openBrowser(origin: string) {
  const browser = await shareBrowser()

  /** Opens an isolated page. Script errors, violations of the security policy, and foreign requests fail the test. */
  return async (options: BrowserContextOptions = {}) => {
    const context = await browser.newContext({ baseURL: origin, ...options })
    // Not shorter than other waits in tests.
    context.setDefaultTimeout(100_000)
    // Open pages would continue to send requests.
    onTestFinished(() => context.close())
    const page: Page = await context.newPage()
    const faults: string[] = []
    onTestFinished(() => expect(faults).toEqual([]))
    page.on('pageerror', ({ message }) => faults.push(message))
    page.on('console', (message) => {
      // The browser logs this for every response from 400 on, even expected ones.
      const isAnswer = message.text().startsWith('Failed to load resource')
      if (message.type() === 'error' && !isAnswer) faults.push(message.text())
    })
    page.on('request', (request) => {
      if (!request.url().startsWith(origin) && !/^(?:data|blob):/.test(request.url()))
        faults.push(request.url())
    })
    // Only files and the OpenAPI document may be cached, because they are the same for everyone.
    page.on('response', (response) => {
      const isKept = response.headers()['cache-control'] !== 'no-store' && !response.url().startsWith('blob:')
      if (isKept && !/^\/(?:assets\/|api\/openapi\.json$)/.test(new URL(response.url()).pathname))
        faults.push(`kept: ${response.url()}`)
    })
    return { page, context }
  }
}

export const SIGNED_IN = Object.keys(SIGNED_IN_PAGES)

/** Visits each page, and looks once it has loaded and its sections are unfolded. */
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
