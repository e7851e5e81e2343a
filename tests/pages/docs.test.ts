import { expect, test } from 'vitest'
import { heading, openPages, press, say, signIn } from '../support/browser.ts'

/** The guides at /docs in a browser. tests/http has their links and their code. */

const { origin, service, openPage } = await openPages()

test('the code in a guide names this deployment, and can be copied', async () => {
  const { page, context } = await openPage()
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await page.goto('/docs/quickstart')
  const example = page.locator('.example', { hasText: 'signIn.json()' })
  await example.hover()
  await press(example, 'Copy')
  await say(example, 'Copied')
  const copied = await page.evaluate('navigator.clipboard.readText()')
  expect(copied).toContain(`await fetch('${origin}/api/auth/login'`)
  expect(await page.locator('main').innerText()).not.toContain('auth.example.com')
})

test('a small window has the guides in a menu that works by keyboard', async () => {
  const { page } = await openPage({ viewport: { width: 390, height: 740 } })
  await page.goto('/docs')
  const menu = page.getByRole('navigation', { name: 'Guides' })
  expect(await menu.isVisible()).toBe(false)
  await page.getByRole('button', { name: 'Menu' }).focus()
  await page.keyboard.press('Enter')
  await menu.waitFor()
  await page.keyboard.press('Escape')
  await menu.waitFor({ state: 'hidden' })
  await press(page, 'Menu')
  await menu.getByRole('link', { name: 'Send events' }).click()
  await heading(page, 'Send events')
})

test('the developer page leads to the guides, and to a reference with code in four languages', async () => {
  const { page, context } = await openPage()
  await signIn(page, await service.addCompany())
  const opened = context.waitForEvent('page')
  await page.getByRole('link', { name: 'API reference' }).click()
  const reference = await opened
  await reference.getByText('Sign in with a password').click()
  await say(reference, `curl ${origin}/api/auth/login`)
  for (const text of ['await fetch(', 'urllib.request', 'package main']) {
    await reference.locator('[role=tab][aria-selected=true]').focus()
    await reference.keyboard.press('ArrowRight')
    await say(reference, text)
  }
  // The address leads back to the endpoint.
  const { page: later } = await openPage()
  await later.goto(reference.url())
  await say(later, `curl ${origin}/api/auth/login`)
})
