import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Secret, TOTP } from 'otpauth'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { PUBLIC_PATHS, SIGNED_IN_PAGES } from '../src/pages/paths.ts'
import { findFreePort } from '../src/workers/free-port.ts'
import { launchBrowser } from './kit/browser.ts'
import { listMails } from './kit/mail-folder.ts'

/** Takes a picture of each page in both themes and at two widths, on a service of its own, into screenshots/. */

const PROJECT = resolve(import.meta.dirname, '..')
const FOLDER = join(PROJECT, 'screenshots')
const OPEN = ['/sign-in', ...PUBLIC_PATHS, '/nothing']

const LOOKS = (['light', 'dark'] as const).flatMap((colorScheme) =>
  [1280, 360].map((width) => ({ colorScheme, width })),
)

/** A browser of its own with one look, and what saves pictures of its pages. */
async function open(browser: Browser, { colorScheme, width }: (typeof LOOKS)[number]) {
  const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 } })
  const name = (page: string) => `${page}-${colorScheme}-${width}`
  const saver =
    (page: Page): Save =>
    (state) =>
      page.screenshot({ path: join(FOLDER, `${name(state)}.png`), fullPage: true })
  return { context, name, saver }
}

/** Starts the service with a database of its own. Resolves with the link that it prints, and the password. */
async function startService(dataDir: string) {
  // The service must know its own: the browser makes passkeys for PUBLIC_URL alone, which names it.
  const port = await findFreePort({ host: '127.0.0.1', port: 0 })
  const ports = { PORT: String(port), OPS_PORT: '0', PLATFORM_PORT: '0' }
  const service = spawn(join(PROJECT, 'scripts/start'), {
    // Each look asks for as much as a person in an hour.
    env: { PATH: process.env['PATH'], DATA_DIR: dataDir, RATE_LIMIT_SCALE: '10', ...ports },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  service.stdout.setEncoding('utf8')
  for await (const text of service.stdout.iterator({ destroyOnReturn: false })) {
    output += text
    const [, link] = /^ {2}(http\S+\/sign-in#\S+)$/m.exec(output) ?? []
    const [, password] = /^ {2}password +(\S+)$/m.exec(output) ?? []
    if (link && password) {
      service.stdout.resume()
      return { service, link, password }
    }
  }
  throw new Error(`The service did not start:\n${output}`)
}

async function take(page: Page, url: string, name: string): Promise<void> {
  // What a mailed link says besides its token.
  await page.goto(`${url}#token=none&company=Demo+Company&email=ada%40demo.example`)
  await page.locator('h1').waitFor()
  await page.waitForLoadState('networkidle')
  await page.screenshot({ path: join(FOLDER, `${name}.png`), fullPage: true })
}

type Save = (state: string) => Promise<unknown>
const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()

/** What pages show once something is pressed. */
async function takeStates(page: Page, origin: string, save: Save): Promise<void> {
  await page.goto(`${origin}/developer`)
  await press(page, 'Replace secret…')
  await save('developer-replace')
  await page.goto(`${origin}/members`)
  await press(page, 'Manage Billing worker')
  await save('members-open')
  await press(page, 'Replace password for Billing worker')
  await page.locator('dialog[open] select').selectOption('in 24 hours')
  await save('members-password')
  await press(page, 'Cancel')
  await press(page, 'Delete Billing worker')
  await save('members-delete')
  await page.goto(`${origin}/company`)
  await page.getByRole('radio', { name: 'Required for everyone' }).check()
  await press(page, 'Save')
  await page.locator('dialog[open]').waitFor()
  await save('company-stricter')
}

const isCode = (name: string) => name.includes('mailbox_code')

/** Asks for the code that the first factor needs, and reads it from its mail. */
async function proveMailbox(page: Page, dataDir: string, save: () => Promise<unknown>): Promise<void> {
  const before = (await listMails(dataDir, 'admin@')).filter(isCode).length
  const section = page.getByRole('region', { name: 'Add your first second factor' })
  await section.getByRole('button', { name: 'Email me a code' }).click()
  let codes: string[] = []
  while (codes.length <= before) {
    await sleep(100)
    codes = (await listMails(dataDir, 'admin@')).filter(isCode)
  }
  const text = (codes.at(-1) ?? '').replace(/eml$/, 'txt')
  const mail = await readFile(join(dataDir, 'mail', text), 'utf8')
  await section.getByLabel('Code from the email').fill(/\d{4} \d{4}/.exec(mail)?.[0] ?? '')
  await save()
  await press(page, 'Continue')
}

/** Adds second factors, signs in with them, and removes them, so that the next look begins as this one. */
async function takeFactors(
  page: Page,
  { origin, link, password, dataDir }: { origin: string; link: string; password: string; dataDir: string },
  save: Save,
) {
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('WebAuthn.enable', { enableUI: false })
  await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  await page.addInitScript('PublicKeyCredential.isConditionalMediationAvailable = async () => false')
  await page.goto(`${origin}/account`)
  await proveMailbox(page, dataDir, () => save('account-mailbox'))
  await press(page, 'Add a passkey')
  await save('account-passkey')
  await press(page, 'Create passkey')
  await page.locator('.codes').waitFor()
  await save('account-codes')
  await press(page, "I've stored them")
  await press(page, 'Add an app')
  await page.locator('.qr').waitFor()
  await save('account-app')
  const secret = ((await page.locator('.secret code').textContent()) ?? '').replaceAll(' ', '')
  await page.getByLabel('Code', { exact: true }).fill(TOTP.generate({ secret: Secret.fromBase32(secret) }))
  await press(page, 'Add the app')
  await page.getByRole('button', { name: 'Remove… Authenticator app' }).waitFor()
  await save('account-factors')
  // As if the sign-in was long ago.
  const refusal = { code: 'reauthentication_required', detail: '', type: '', title: '', status: 403 }
  await page.route('**/email/change', (route) => route.fulfill({ status: 403, json: refusal }))
  await page.getByLabel('New email').fill('new@demo.example')
  await press(page, 'Email me a link')
  await page.getByRole('button', { name: 'Use a passkey' }).waitFor()
  await save('account-proof')
  await press(page, 'Cancel')

  await press(page, 'Sign out')
  await page.goto(link)
  await page.getByLabel('Password').fill(password)
  await press(page, 'Sign in')
  await page.getByRole('button', { name: 'Use your passkey' }).waitFor()
  await save('second-step')
  await press(page, 'Use an authenticator app')
  await page.getByLabel('Code', { exact: true }).fill('000000')
  await press(page, 'Continue')
  await page.locator('[aria-invalid=true]').waitFor()
  await save('second-step-code')
  await press(page, 'Use a passkey')
  await press(page, 'Use your passkey')
  await page.getByRole('link', { name: 'Account' }).click()
  await press(page, 'Remove… Authenticator app')
  await press(page, 'Remove Authenticator app')
  await page.getByRole('button', { name: 'Remove… Authenticator app' }).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: /^Remove… / }).click()
  await save('account-last')
  await page.locator('dialog[open] .danger').click()
  await page.getByText("You don't have one yet").waitFor()
}

/** What a member sees whom the policy holds. */
async function takeEnrolment(page: Page, dataDir: string, save: Save): Promise<void> {
  await page.getByRole('heading', { name: 'Add your first second factor' }).waitFor()
  await save('enrolment')
  await proveMailbox(page, dataDir, () => save('enrolment-code'))
  await page.locator('.ways').waitFor()
  await save('enrolment-choice')
}

async function signIn(
  context: BrowserContext,
  link: string,
  password: string,
  home = 'Developer settings',
): Promise<Page> {
  const page = await context.newPage()
  await page.goto(link)
  await page.getByLabel('Password').fill(password)
  await press(page, 'Sign in')
  await page.getByRole('heading', { level: 1, name: home }).waitFor()
  return page
}

async function askEveryone(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Company' }).click()
  await page.getByRole('radio', { name: 'Required for everyone' }).check()
  await press(page, 'Save')
  await press(page, 'Require')
  await page.getByText('Saved.').waitFor()
}

/** Something to see on each page. */
async function live(page: Page, origin: string): Promise<void> {
  await page.getByRole('button', { name: 'Create signing secret' }).click()
  await page.locator('.secret').waitFor()
  const facts = page.getByRole('region', { name: 'Send events' }).locator('dd code')
  const companyId = (await facts.nth(1).textContent()) ?? ''
  await fetch(`${origin}/api/events/ingest`, { method: 'POST', headers: { 'x-company-id': companyId } })
  await page.goto(`${origin}/members`)
  await page.getByLabel('Email addresses').fill('bob@acme.example')
  await press(page, 'Invite')
  await page.getByRole('heading', { name: 'Open invitations' }).waitFor()
  const account = page.getByRole('region', { name: 'Add a service account' })
  await account.getByLabel('Name').fill('Billing worker')
  await press(page, 'Add service account')
  await page.locator('.fresh').waitFor()
  await press(page, "I've stored them")
}

const dataDir = await mkdtemp(join(tmpdir(), 'gatehouse-screenshots-'))
await mkdir(FOLDER, { recursive: true })
const { service, link, password } = await startService(dataDir)
const browser = await launchBrowser()
try {
  const { origin } = new URL(link)
  const first = await browser.newContext()
  await live(await signIn(first, link, password), origin)
  for (const look of LOOKS) {
    const { context, name, saver } = await open(browser, look)
    const page = await context.newPage()
    for (const path of OPEN) await take(page, `${origin}${path}`, name(path.slice(1)))
    const signedIn = await signIn(context, link, password)
    for (const path of Object.keys(SIGNED_IN_PAGES))
      await take(signedIn, `${origin}${path}`, name(path.slice(1)))
    await takeStates(signedIn, origin, saver(signedIn))
    await takeFactors(signedIn, { origin, link, password, dataDir }, saver(signedIn))
    await context.close()
  }
  const admin = await signIn(first, link, password)
  await askEveryone(admin)
  for (const look of LOOKS) {
    const { context, saver } = await open(browser, look)
    const held = await signIn(context, link, password, 'Your company requires a second factor')
    await takeEnrolment(held, dataDir, saver(held))
    await context.close()
  }
  console.log(`${(await readdir(FOLDER)).length} pictures are in ${FOLDER}`)
} finally {
  await browser.close()
  service.kill('SIGTERM')
  await once(service, 'exit')
  await rm(dataDir, { recursive: true, force: true })
}
