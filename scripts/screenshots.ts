import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { BrowserContext, Page } from 'playwright-core'
import { findFreePort } from '../src/http/acceptors.ts'
import { launchBrowser } from './browser.ts'

/** Takes a picture of each page in both themes and at two widths, on a service of its own, into screenshots/. */

const PROJECT = resolve(import.meta.dirname, '..')
const FOLDER = join(PROJECT, 'screenshots')
const OPEN = [
  'sign-in',
  'register',
  'companies',
  'forgot-password',
  'verify-email',
  'reset-password',
  'accept-invitation',
  'confirm-email',
  'nothing',
]
const SIGNED_IN = ['developer', 'members', 'activity', 'account']

/** Starts the service with a database of its own. Resolves with the link that it prints, and the password. */
async function startService(dataDir: string) {
  const freePort = async () => String(await findFreePort({ host: '127.0.0.1', port: 0 }))
  const ports = { PORT: await freePort(), OPS_PORT: await freePort() }
  const service = spawn(join(PROJECT, 'scripts/start'), {
    env: { PATH: process.env['PATH'], DATA_DIR: dataDir, ...ports },
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
  await page.goto(url)
  await page.locator('h1').waitFor()
  await page.waitForLoadState('networkidle')
  await page.screenshot({ path: join(FOLDER, `${name}.png`), fullPage: true })
}

/** What pages show once something is pressed. */
async function takeStates(page: Page, origin: string, name: (state: string) => string): Promise<void> {
  const save = (state: string) =>
    page.screenshot({ path: join(FOLDER, `${name(state)}.png`), fullPage: true })
  await page.goto(`${origin}/developer`)
  await page.getByRole('button', { name: 'Replace the secret…' }).click()
  await save('developer-replace')
  await page.goto(`${origin}/members`)
  await page.getByText('Billing worker').click()
  await page.getByRole('button', { name: 'Delete…' }).first().click()
  await save('members-open')
}

async function signIn(context: BrowserContext, link: string, password: string): Promise<Page> {
  const page = await context.newPage()
  await page.goto(link)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { level: 1, name: 'Developer settings' }).waitFor()
  return page
}

/** Something to see on each page. */
async function live(page: Page, origin: string, companyId: string): Promise<void> {
  await page.getByRole('button', { name: 'Make the secret' }).click()
  await page.locator('.secret').waitFor()
  await fetch(`${origin}/api/events/ingest`, { method: 'POST', headers: { 'x-company-id': companyId } })
  await page.getByRole('link', { name: 'Members' }).click()
  await page.getByLabel('E-mail').first().fill('bob@acme.example')
  await page.getByRole('button', { name: 'Invite' }).click()
  await page.getByRole('heading', { name: 'Open invitations' }).waitFor()
  await page.getByLabel('Name').last().fill('Billing worker')
  await page.getByRole('button', { name: 'Add the server' }).click()
  await page.locator('.fresh').waitFor()
}

const dataDir = await mkdtemp(join(tmpdir(), 'gatehouse-screenshots-'))
await mkdir(FOLDER, { recursive: true })
const { service, link, password } = await startService(dataDir)
const browser = await launchBrowser()
try {
  const { origin, hash } = new URL(link)
  const companyId = new URLSearchParams(hash.slice(1)).get('company') ?? ''
  const first = await browser.newContext()
  await live(await signIn(first, link, password), origin, companyId)
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [1280, 360]) {
      const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 } })
      const name = (page: string) => `${page}-${colorScheme}-${width}`
      const page = await context.newPage()
      for (const path of OPEN) await take(page, `${origin}/${path}`, name(path))
      const signedIn = await signIn(context, link, password)
      for (const path of SIGNED_IN) await take(signedIn, `${origin}/${path}`, name(path))
      await takeStates(signedIn, origin, name)
      await context.close()
    }
  }
  console.log(`${(await readdir(FOLDER)).length} pictures are in ${FOLDER}`)
} finally {
  await browser.close()
  service.kill('SIGTERM')
  await once(service, 'exit')
  await rm(dataDir, { recursive: true, force: true })
}
