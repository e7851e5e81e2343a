import { expect, test } from 'vitest'
import {
  enter,
  go,
  heading,
  offerNothing,
  openPages,
  press,
  SIGNED_IN,
  say,
  signIn,
  visit,
} from '../support/browser.ts'
import { codeAt } from '../support/second-factors.ts'
import { times } from '../support/test-service.ts'
import { begin, signOut, useFactors } from './factor-steps.ts'

/** Rules for every page. */

const { service, openPage, openMailed } = await openPages()
const { addApp } = useFactors(service)

test('names that strangers and members choose are shown as text (ASVS 1.2.1, 1.2.2, 3.2.2, 3.4.3)', async () => {
  const script = '<script>alert(1)</script>'
  const image = '<img src=x onerror=alert(1)>'
  const admin = await service.addCompany({ name: `"'>${script}`, adminName: `{{alert(1)}} ${image}` })
  const { accessToken: token } = await service.loginAs(admin)
  const server = await service.call('/auth/members', { token, json: { name: image, role: 'viewer' } })
  expect(server.status).toBe(201)
  const invited = 'mallory@else.example'
  await service.call('/auth/invitations', { token, json: { email: invited, role: 'viewer' } })
  // A browser with this name, a refused sign-in, and refused events.
  await service.loginAs(admin, { headers: { 'user-agent': `"><svg onload=alert(1)>${script}` } })
  await service.login({ ...admin, password: 'wrong' }, { headers: { 'user-agent': script } })
  const secret = await service.newSecret(admin)
  for (const id of [script, 'javascript:alert(1)', 'msg_1'])
    await service.send(admin.companyId, secret, '{', { headers: { 'webhook-id': id } })

  const { page } = await openPage({ userAgent: image })
  page.on('dialog', () => expect.fail('a script of a stranger ran'))
  await openMailed(page, invited)
  await heading(page, `Join "'>${script}`)
  await page.goto(`/sign-in#company=${encodeURIComponent(image)}&email=${encodeURIComponent(script)}`)
  await heading(page, 'Sign in')
  await enter(page, admin)
  await heading(page, 'Developer settings')
  const shown: string[] = []
  await visit(page, SIGNED_IN, async () => {
    const active = page.locator('img, body script, main svg, [onerror], [onload]')
    expect(await active.count()).toBe(0)
    shown.push(await page.locator('body').innerText())
  })
  for (const text of [script, image, '<svg onload=alert(1)>', '{{alert(1)}}'])
    expect(shown.join('\n')).toContain(text)
  await page.emulateMedia({ media: 'print' })
  expect(await page.locator('.bar, button').filter({ visible: true }).count()).toBe(0)
  await page.emulateMedia({ media: null })
  await press(page, 'Sign out')
  await page.locator('.chosen', { hasText: script }).waitFor()
})

test('every page behind sign-in has a button to sign out (ASVS 7.4.4)', async () => {
  const { page } = await openPage()
  await signIn(page, await service.addCompany())
  let pages = 0
  await visit(page, SIGNED_IN, async () => {
    pages += 1
    await page.getByRole('button', { name: 'Sign out', exact: true }).waitFor()
  })
  expect(pages).toBeGreaterThan(4)
})

test('passwords are hidden, and can be pasted and filled in (ASVS 6.2.6, 6.2.7)', async () => {
  const { page, context } = await openPage()
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  for (const [path, purpose] of [
    ['/sign-in', 'current-password'],
    ['/register', 'new-password'],
  ] as const) {
    await page.goto(path)
    const field = page.locator(`input[type=password][autocomplete=${purpose}]`)
    await field.waitFor()
    expect(await page.locator('input[name*=assword]:not([type=password])').count()).toBe(0)
    await page.evaluate(`navigator.clipboard.writeText('a pasted password')`)
    await field.focus()
    await page.keyboard.press('ControlOrMeta+V')
    expect(await field.inputValue()).toBe('a pasted password')
  }
})

test('sign-in and navigation work by keyboard with a visible focus (WCAG 2.1.1, 2.4.7)', async () => {
  const company = await service.addCompany()
  const { page } = await openPage()
  /** Presses Tab until the named element has the focus, which must be visible. */
  async function tabTo(name: string): Promise<void> {
    for (const _ of times(40, () => 0)) {
      await page.keyboard.press('Tab')
      const [found, outline] = await page.evaluate<string[]>(`(() => {
        const { activeElement } = document
        const name = activeElement.labels?.[0] ?? activeElement
        return [name.textContent.trim(), getComputedStyle(activeElement).outlineStyle]
      })()`)
      if (found !== name) continue
      expect(outline).not.toBe('none')
      return
    }
    throw new Error(`the focus does not come to ${name}`)
  }
  await page.goto('/sign-in')
  await heading(page, 'Sign in')
  // The first field already has the focus.
  await page.locator('input[name=company]:focus').waitFor()
  await page.keyboard.type(company.companyId)
  await tabTo('Email')
  await page.keyboard.type(company.email)
  await tabTo('Password')
  await page.keyboard.type(company.password)
  await page.keyboard.press('Enter')
  await heading(page, 'Developer settings')
  for (const name of ['Skip to content', 'Members']) await tabTo(name)
  await page.keyboard.press('Enter')
  await heading(page, 'Members')
  await tabTo('Sign out')
  await page.keyboard.press('Enter')
  await say(page, "You're signed out.")

  // With a second factor, the code field already has the focus.
  const member = await service.addUser(company)
  await offerNothing(page)
  await page.reload()
  await enter(page, member)
  await go(page, 'Account')
  const { secret } = await addApp(page)
  await signOut(page)
  await begin(page, member)
  await tabTo('Use a recovery code')
  await page.keyboard.press('Enter')
  await page.locator('input[name=code]:focus').waitFor()
  await tabTo('Use an authenticator app')
  await page.keyboard.press('Enter')
  await page.locator('input[name=code]:focus').waitFor()
  await page.keyboard.type(codeAt(secret, service.clock.now()))
  await page.keyboard.press('Enter')
  await heading(page, 'Your account')
})
