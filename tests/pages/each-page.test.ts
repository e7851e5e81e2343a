import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { enter, heading, openPages } from '../support/browser.ts'

/** What holds for each page, in a real browser. */

const { origin, service, openPage } = await openPages()
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

describe('on each page', async () => {
  const company = await service.addCompany({ name: 'Plain', adminName: '<img src=x onerror=alert(1)>' })
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
  async function signIn(page: Page): Promise<void> {
    await page.goto(`${origin}/sign-in`)
    await enter(page, company)
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
    await signIn(page)
    await visit(page, SIGNED_IN, look)
    expect(complaints).toEqual([])
    expectClean()
  })

  test('hostile names are text, and nothing comes from elsewhere (ASVS 1.2.1, 3.2.2, 3.4.3)', async () => {
    const { page, expectClean } = await openPage(origin, { userAgent: '"><script>alert(1)</script>' })
    page.on('dialog', () => expect.fail('a script of a stranger ran'))
    await signIn(page)
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
    await signIn(page)
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
