import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { openBrowser } from '../support/browser.ts'
import { openMailbox } from '../support/mailbox.ts'
import { freePort } from '../support/server-process.ts'
import { openTestService, PASSWORD } from '../support/test-service.ts'

/** The life of a company on its pages, in a real browser. */

const port = await freePort()
const origin = `http://localhost:${port}`
const mailbox = await openMailbox()
const service = await openTestService({
  port,
  env: { SMTP_URL: mailbox.url, PUBLIC_URL: origin, PORT: String(port) },
})
const { openPage } = await openBrowser()
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name }).waitFor()
const say = (page: Page, text: string | RegExp) => page.getByText(text).first().waitFor()

async function fill(page: Page, values: Record<string, string>): Promise<void> {
  for (const [label, value] of Object.entries(values))
    await page.getByLabel(label, { exact: true }).first().fill(value)
}

async function signIn(page: Page, values: Record<string, string>): Promise<void> {
  await page.goto(`${origin}/sign-in`)
  await fill(page, values)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

/** What stands in the address bar and in the storage of the browser, and what a script can read of its cookies. */
const traces = (page: Page) =>
  page.evaluate<string>(
    'JSON.stringify([location.href, { ...localStorage }, { ...sessionStorage }, document.cookie])',
  )

test('a company registers, sends its first event, invites a colleague, and demotes them (ASVS 3.2.1)', async () => {
  const admin = await openPage(origin)
  const { page } = admin
  const email = 'ada@acme.example'

  await page.goto(`${origin}/register`)
  await fill(page, { Company: 'Acme', 'Your name': 'Ada', 'Your e-mail': email, Password: '12345678' })
  await page.getByRole('button', { name: 'Register' }).click()
  await page.locator('[aria-invalid=true]').waitFor()
  await fill(page, { Password: PASSWORD })
  await page.getByRole('button', { name: 'Register' }).click()
  await heading(page, 'Look into your mailbox')

  const { email: mail, token } = await mailbox.mailTo(email)
  const [link = ''] = /http:\/\/localhost\S+/.exec(mail.text ?? '') ?? []
  await page.goto(link)
  expect(page.url()).toBe(`${origin}/verify-email`)
  await page.getByRole('button', { name: 'Confirm my address' }).click()
  await say(page, 'You can sign in now.')
  await page.getByRole('link', { name: 'Sign in' }).click()
  await fill(page, { 'E-mail': email, Password: PASSWORD })
  await page.getByRole('button', { name: 'Sign in' }).click()

  await heading(page, 'Developer settings')
  await page.getByRole('button', { name: 'Make the secret' }).click()
  const secret = (await page.locator('.secret code').textContent()) ?? ''
  expect(secret).toMatch(/^whsec_/)
  await say(page, 'Waiting for the first event')
  const { companyId } = await service.db
    .selectFrom('companies')
    .select('company_id as companyId')
    .where('name', '=', 'Acme')
    .executeTakeFirstOrThrow()
  expect((await service.send(companyId, secret, { type: 'payment.created', data: {} })).status).toBe(202)
  await say(page, 'The first event signed with it has come.')
  expect(await traces(page)).not.toMatch(/whsec_|verify_/)
  expect(await traces(page)).not.toContain(token)
  await page.getByRole('link', { name: 'Members' }).click()
  await heading(page, 'Members')
  await page.getByRole('link', { name: 'Developer' }).click()
  await heading(page, 'Developer settings')
  // Gone when the page is left.
  expect(await page.content()).not.toContain(secret)

  await page.getByRole('button', { name: 'Replace the secret…' }).click()
  await fill(page, { 'Type Acme to go on': 'acme' })
  await page.getByRole('button', { name: 'Replace it' }).click()
  await say(page, 'must be “Acme”')
  await fill(page, { 'Type Acme to go on': 'Acme' })
  await page.getByRole('button', { name: 'Replace it' }).click()
  await say(page, 'Your new secret, version 2.')
  expect((await service.send(companyId, secret, { type: 'payment.created', data: {} })).status).toBe(401)
  await expect
    .poll(async () => {
      await page.reload()
      await heading(page, 'Developer settings')
      await page.waitForTimeout(300)
      return await page.locator('.refusals').count()
    })
    .toBe(1)
  await say(page, 'Give this sender the new one.')

  await page.getByRole('link', { name: 'Members' }).click()
  const bob = 'bob@acme.example'
  await fill(page, { 'E-mail': bob })
  await page.getByLabel('Role').first().selectOption('admin')
  await page.getByRole('button', { name: 'Invite' }).click()
  await say(page, `An invitation is on its way to ${bob}.`)
  const invitation = await mailbox.mailTo(bob)
  const [join = ''] = /http:\/\/localhost\S+/.exec(invitation.email.text ?? '') ?? []

  const colleague = await openPage(origin)
  await colleague.page.goto(join)
  await heading(colleague.page, 'Join Acme')
  await fill(colleague.page, { 'Your name': 'Bob', Password: PASSWORD })
  await colleague.page.getByRole('button', { name: 'Join' }).click()
  await colleague.page.getByRole('link', { name: 'Sign in' }).click()
  await fill(colleague.page, { 'E-mail': bob, Password: PASSWORD })
  await colleague.page.getByRole('button', { name: 'Sign in' }).click()
  await heading(colleague.page, 'Developer settings')

  // He is demoted while he is signed in, and his next change is refused; then he is disabled, and out.
  await page.reload()
  await page.getByText(bob).click()
  const details = page.locator('details[open]')
  await details.getByLabel('Role').selectOption('viewer')
  await details.getByRole('button', { name: 'Save the role' }).click()
  await page.locator('summary', { hasText: bob }).getByText('viewer').waitFor()
  await colleague.page.getByRole('button', { name: 'Replace the secret…' }).click()
  await fill(colleague.page, { 'Type Acme to go on': 'Acme' })
  await colleague.page.getByRole('button', { name: 'Replace it' }).click()
  await say(colleague.page, 'your role does not have')
  await details.getByRole('button', { name: 'Disable' }).click()
  await page.locator('summary', { hasText: bob }).getByText('disabled').waitFor()
  await colleague.page.getByRole('button', { name: 'Keep the old one' }).click()
  await colleague.page.getByRole('link', { name: 'Account' }).click()
  await say(colleague.page, 'Your account is disabled.')

  await page.getByRole('link', { name: 'Activity' }).click()
  await heading(page, 'Activity')
  await page.getByRole('cell', { name: /disabled a member/ }).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await say(page, 'You are signed out.')
  await page.goBack()
  await heading(page, 'Sign in')
  expect(await page.content()).not.toContain(bob)
  admin.expectClean()
  colleague.expectClean()
})

describe('on each page', async () => {
  const company = await service.addCompany({ name: 'Plain', adminName: '<img src=x onerror=alert(1)>' })
  const credentials = { 'Company id': company.companyId, 'E-mail': company.email, Password: company.password }
  const OPEN = [
    '/sign-in',
    '/register',
    '/companies',
    '/forgot-password',
    '/reset-password',
    '/verify-email',
    '/nothing',
  ]
  const SIGNED_IN = ['/developer', '/members', '/activity', '/account']

  /** Goes to each page, and looks at it when nothing more is loaded. */
  async function visit(page: Page, paths: string[], look: (path: string) => Promise<void>): Promise<void> {
    for (const path of paths) {
      await page.goto(`${origin}${path}`)
      await page.locator('h1').waitFor()
      await page.waitForLoadState('networkidle')
      await look(path)
    }
  }
  const enter = async (page: Page) => {
    await signIn(page, credentials)
    await heading(page, 'Developer settings')
  }

  test.for(['light', 'dark'] as const)('in %s, axe finds nothing to complain of', async (colorScheme) => {
    const { page, expectClean } = await openPage(origin, { colorScheme, bypassCSP: true })
    const complaints: string[] = []
    async function look(path: string): Promise<void> {
      await page.addScriptTag({ path: AXE })
      const found = await page.evaluate<string[]>(
        "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes[0].html))",
      )
      complaints.push(...found.map((one: string) => `${path} ${one}`))
    }
    await visit(page, OPEN, look)
    await enter(page)
    await visit(page, SIGNED_IN, look)
    expect(complaints).toEqual([])
    expectClean()
  })

  test('hostile names are text, and nothing comes from elsewhere (ASVS 1.2.1, 3.2.2, 3.4.3)', async () => {
    const { page, expectClean } = await openPage(origin, { userAgent: '"><script>alert(1)</script>' })
    page.on('dialog', () => expect.fail('a script of a stranger ran'))
    await enter(page)
    await visit(page, SIGNED_IN, async () => {
      expect(await page.locator('main img, main script').count()).toBe(0)
    })
    expectClean()
  })

  test('nothing is wider than a narrow window', async () => {
    const { page } = await openPage(origin, { viewport: { width: 360, height: 740 } })
    const wide: string[] = []
    const measure = async (path: string) => {
      const width = await page.evaluate<number>('document.documentElement.scrollWidth')
      if (width > 360) wide.push(`${path} ${width}`)
    }
    await visit(page, OPEN, measure)
    await enter(page)
    await visit(page, SIGNED_IN, measure)
    expect(wide).toEqual([])
  })
})

test('the page and its files have their policy, their caching, and few bytes (ASVS 3.4.3, 3.4.6, 14.3.2)', async () => {
  const headers = { 'accept-encoding': 'br', accept: 'text/html' }
  const answer = await fetch(`${origin}/`, { headers })
  const policy = answer.headers.get('content-security-policy') ?? ''
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("frame-ancestors 'none'")
  expect(policy).toContain("require-trusted-types-for 'script'")
  expect(policy).not.toContain('unsafe')
  expect(answer.headers.get('cache-control')).toBe('no-store')
  const paths = (await answer.text()).match(/\/assets\/[^"]+/g) ?? []
  expect(paths).toHaveLength(2)
  let bytes = 0
  for (const path of paths) {
    const file = await fetch(`${origin}${path}`, { headers })
    expect([file.status, file.headers.get('cache-control')]).toEqual([
      200,
      'public, max-age=31536000, immutable',
    ])
    bytes += Number(file.headers.get('content-length'))
  }
  expect(bytes).toBeLessThan(60_000)
  const unknown = await fetch(`${origin}/nothing`, { headers })
  expect([unknown.status, unknown.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
  const program = await fetch(`${origin}/api/nothing`, { headers })
  expect([program.status, program.headers.get('content-type')]).toEqual([
    404,
    'application/problem+json; charset=utf-8',
  ])
})
