import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { operations } from '../http/document.ts'
import { go, heading, openPages, say } from '../support/browser.ts'
import { linesOf } from '../support/log-lines.ts'

/** Attacks by other sites' pages in a signed-in user's browser. */

const { origin, service, openAdmin } = await openPages()

/** Serves an attacker's pages. */
const server = createServer((_request, response) => {
  response.setHeader('content-type', 'text/html')
  response.end('<!doctype html><title>Win a prize</title><h1>Win a prize</h1>')
}).listen(0, '127.0.0.1')
await once(server, 'listening')
afterAll(() => server.close())
const { port } = server.address() as AddressInfo
/** Browsers send our cookie only from pages of the same site. Ports do not matter, so the second one is the same site. */
const SIBLING = `http://localhost:${port}`
const ELSEWHERE = [
  [`http://127.0.0.1:${port}`, 401],
  [SIBLING, 403],
] as const

const ID = '01890a5d-ac96-774b-bcce-b302099a8057'
/** All operations that a session cookie authorizes. */
const TARGETS = operations
  .filter(({ operation }) => operation.security?.some((one) => 'sessionCookie' in one))
  .map(({ method, path }) => ({ url: `${origin}/api${path.replace(/\{\w+\}/g, ID)}`, method }))
const POSTS = TARGETS.filter(({ method }) => method === 'POST')

/** A signed-in user, and their company's rows in the database. */
async function openVictim() {
  const { admin, page, context } = await openAdmin()
  // Waits for the first requests of the page, so that they are not counted later.
  await say(page, 'There is no secret yet')
  // This page sends no requests on its own.
  await go(page, 'Account')
  await heading(page, 'Your account')
  const state = async () => {
    const { companyId } = admin
    const rows = (table: 'audit_events' | 'sessions' | 'users' | 'invitations') =>
      service.db.selectFrom(table).selectAll().where('company_id', '=', companyId).execute()
    const all = [await rows('audit_events'), await rows('users'), await rows('invitations')]
    const sessions = (await rows('sessions')).map(({ session_id: id, ended_at: endedAt }) => [id, endedAt])
    return [...all, sessions, await context.cookies(origin)]
  }
  return { context, state }
}

/** Collects the statuses of later responses to requests with these methods. */
function answersTo(...methods: string[]): () => number[] {
  const from = linesOf(service).length
  const lines = () => linesOf(service).slice(from)
  return () =>
    lines().flatMap(({ method, status }) => (methods.includes(String(method)) ? Number(status) : []))
}

/** Sends a request with the browser's cookies, and ignores errors. */
const SEND = `const send = (url, options) =>
  fetch(url, { credentials: 'include', ...options }).then(({ type }) => type, () => 'failed')`

test.for(ELSEWHERE)(
  'a page at %s changes nothing, reads nothing, and signs nobody in (ASVS 3.5.1, 3.5.2, 3.5.3)',
  async ([elsewhere, refused]) => {
    const { context, state } = await openVictim()
    const { companyId, email, password } = await service.addCompany()
    const before = await state()
    const page = await context.newPage()
    await page.goto(elsewhere)
    expect(TARGETS.length).toBeGreaterThan(20)
    const [answers, others] = [answersTo('POST'), answersTo('PATCH', 'DELETE')]
    await page.evaluate(`(async () => {
    ${SEND}
    const seen = []
    for (const { url, method } of ${JSON.stringify(TARGETS)}) {
      const body = method === 'GET' ? undefined : '{"name":"Mallory","email":"m@else.example","role":"admin"}'
      const isSimple = method === 'GET' || method === 'POST'
      if (isSimple) seen.push(await send(url, { method, mode: 'no-cors', body }))
      if (isSimple) seen.push(await send(url, { method, body }))
      seen.push(await send(url, { method, body, headers: { 'content-type': 'application/json' } }))
    }
    document.title = JSON.stringify([...new Set(seen)])
  })()`)
    // The browser shows the page no response. It sends requests that need no preflight, and the service refuses them.
    expect(JSON.parse(await page.title())).toEqual(['failed'])
    await expect.poll(() => answers().length).toBe(2 * POSTS.length)
    expect(answers().filter((status) => status !== refused)).toEqual([])

    const answersToForms = answersTo('POST')
    await page.evaluate(`(async () => {
    ${SEND}
    const submit = (url, json) => {
      const frame = document.createElement('iframe')
      frame.name = 'f' + document.forms.length
      const form = document.createElement('form')
      Object.assign(form, { action: url, method: 'post', enctype: 'text/plain', target: frame.name })
      const input = form.appendChild(document.createElement('input'))
      // The form sends JSON: {"name":…,"x":"="}
      input.name = JSON.stringify(json).replace('}', ',"x":"')
      input.value = '"}'
      document.body.append(frame, form)
      form.submit()
    }
    for (const { url } of ${JSON.stringify(POSTS)}) submit(url, { name: 'Mallory' })
    const [url, json] = ${JSON.stringify([`${origin}/api/auth/login`, { companyId, email, password }])}
    submit(url, json)
    const body = JSON.stringify(json)
    const headers = { 'content-type': 'application/json', 'x-session-mode': 'cookie' }
    await send(url, { method: 'POST', body, headers })
    await send(url, { method: 'POST', body, mode: 'no-cors' })
  })()`)
    // One response per form, and one each for sign-in by form and by fetch. The one with the cookie header is not
    // sent.
    await expect.poll(() => answersToForms().length).toBe(POSTS.length + 2)
    expect(answersToForms().filter((status) => ![refused, 415].includes(status))).toEqual([])
    expect(others()).toEqual([])
    expect(await state()).toEqual(before)
  },
)

test('a page of the same site cannot frame, control, or load ours (ASVS 3.4.6, 3.4.8, 3.5.8)', async () => {
  const { context } = await openVictim()
  const page = await context.newPage()
  await page.goto(SIBLING)
  const paths = ['/', '/sign-in', '/developer', '/nothing', '/api/auth/session']
  for (const path of paths) {
    await page.evaluate(`new Promise((resolve) => {
      const frame = document.body.appendChild(document.createElement('iframe'))
      frame.onload = resolve
      frame.src = ${JSON.stringify(origin + path)}
    })`)
  }
  const urls = () => page.frames().map((frame) => frame.url())
  await expect.poll(urls).toEqual([`${SIBLING}/`, ...paths.map(() => 'chrome-error://chromewebdata/')])

  const opened = context.waitForEvent('page')
  await page.evaluate(`window.other = window.open(${JSON.stringify(`${origin}/developer`)})`)
  await heading(await opened, 'Developer settings')
  expect(await page.evaluate('window.other.closed')).toBe(true)
  expect(await (await opened).evaluate('window.opener')).toBeNull()

  const [asset = ''] = /\/assets\/[^"]+\.js/.exec(await (await fetch(origin)).text()) ?? []
  const loaded = await page.evaluate(`new Promise((resolve) => {
    const script = document.createElement('script')
    script.onload = () => resolve('loaded')
    script.onerror = () => resolve('refused')
    script.src = ${JSON.stringify(origin + asset)}
    document.head.append(script)
  })`)
  expect([asset === '', loaded]).toEqual([false, 'refused'])
})
