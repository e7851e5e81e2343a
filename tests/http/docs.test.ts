import { readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { expect, onTestFinished, test, vi } from 'vitest'
import { catalogue } from '../../src/errors.ts'
import { openFolder } from '../support/cleanup.ts'
import { openDoor } from '../support/door.ts'
import { forge, openForge } from '../support/forge.ts'
import { exchange } from '../support/raw.ts'
import { openTestService } from '../support/test-service.ts'
import { document, operations } from './document.ts'

/** The guides at /docs: what they link to, show, and tell readers to copy. tests/pages has what browsers do with them. */

const { origin, lead } = await openDoor()
const service = await openTestService({ env: { PUBLIC_URL: origin } })
for (const { server } of service.apps) lead(server)
const admin = await service.addCompany()

const GUIDES = resolve(import.meta.dirname, '../../src/pages/docs')
const names = (await readdir(GUIDES)).filter((name) => name.endsWith('.md'))
const read = (name: string) => readFile(join(GUIDES, name), 'utf8')
const folder = await openFolder()
await symlink(resolve(import.meta.dirname, '../../node_modules'), join(folder, 'node_modules'))

/** Runs the first code of a guide as a reader would: copied, in a project that has its libraries. */
async function run(guide: string) {
  const [, code = ''] = /^```js\n([\s\S]+?)^```/m.exec(await read(guide)) ?? []
  const file = join(folder, `${guide}.mjs`)
  await writeFile(file, code.replaceAll('https://auth.example.com', origin))
  return await import(/* @vite-ignore */ pathToFileURL(file).href)
}

test('each link in the guides leads to a page and a heading that exist', async () => {
  const pages = new Map<string, string>()
  const open = async (path: string) => {
    const response = await fetch(origin + path)
    expect([path, response.status]).toEqual([path, 200])
    pages.set(path, await response.text())
  }
  await open('/docs')
  // The navigation leads to all guides.
  for (const path of pages.get('/docs')?.match(/(?<=href=")\/docs[^"#]*/g) ?? [])
    if (!pages.has(path)) await open(path)
  expect([...pages.keys()].length).toBe(names.length + 2)
  for (const [path, page] of [...pages].filter(([path]) => path !== '/docs/llms.txt')) {
    for (const [, target = '', anchor] of page.matchAll(/href="(\/[^"#]*|(?=#))(?:#([^"]*))?"/g)) {
      if (target && !pages.has(target)) await open(target)
      if (anchor)
        expect([path, pages.get(target || path)]).toEqual([path, expect.stringContaining(` id="${anchor}"`)])
    }
  }
  const text = pages.get('/docs/llms.txt')
  const ofGuides = [...pages].filter(([path]) => path.startsWith('/docs'))
  expect(ofGuides.filter(([, page]) => page.includes('auth.example.com'))).toEqual([])
  expect(text).toContain(`${origin}/api/auth/login`)
  for (const name of names) expect(text).toContain((await read(name)).split('\n')[0])
})

test('the guides have the strict policy of the pages (ASVS 3.4.3)', async () => {
  const policies = ['/sign-in', '/docs', '/docs/reference'].map(
    async (path) => (await fetch(origin + path)).headers.get('content-security-policy') ?? '',
  )
  expect(new Set(await Promise.all(policies)).size).toBe(1)
})

test('each error code has a section in the guides, to which its problem leads', async () => {
  const page = await (await fetch(`${origin}/docs/errors`)).text()
  for (const code of Object.keys(catalogue)) expect(page).toContain(`<h3 id="${code}">`)
  const { code, help } = (await service.call('/auth/session', { method: 'GET' })).body
  expect(help).toBe(`${origin}/docs/errors#${code}`)
  // Also before the app sees the request.
  const [refusal] = await exchange(service.addresses[0] ?? '', 'nonsense\r\n\r\n')
  expect(refusal?.body).toContain(`"help":"${origin}/docs/errors#malformed_http"`)
})

test('problems name no documentation if a different deployment serves the pages', async () => {
  const other = await openTestService({ env: { PAGES_URL: 'https://app.gatehouse.example' } })
  const { body } = await other.call('/auth/session', { method: 'GET' })
  expect(body).not.toHaveProperty('help')
  expect((await fetch(`${other.addresses[0]}/docs`)).status).toBe(404)
})

const requests = (
  await Promise.all(
    names.map(async (name) =>
      [...(await read(name)).matchAll(/^ *```http\n([\s\S]+?)^ *```/gm)].map(([, text = '']) => ({
        name,
        text,
      })),
    ),
  )
).flat()

test.for(requests)('a request in $name is valid: $text', ({ text }) => {
  const [, method, path] = /^ *(\w+) (\S+)$/m.exec(text) ?? []
  const [body = 'null'] = /^ *\{[\s\S]+/m.exec(text) ?? []
  const found = operations.find((one) => one.method === method && one.path === path?.split('?')[0])
  expect(found).toBeDefined()
  const { requestBody, security } = found?.operation ?? {}
  const ajv = new Ajv2020({ strict: false })
  addFormats.default(ajv)
  ajv.addFormat('idn-email', true)
  ajv.addSchema(document, 'openapi')
  const pointer = `/paths/${path?.replaceAll('/', '~1')}/${method?.toLowerCase()}/requestBody/content/application~1json/schema`
  const sent = JSON.parse(body)
  if (requestBody)
    expect([ajv.validate({ $ref: `openapi#${encodeURI(pointer)}` }, sent), ajv.errors]).toEqual([true, null])
  else expect(sent).toBeNull()
  const takesToken = security?.some((schemes) => 'accessToken' in schemes || 'refreshToken' in schemes)
  // Where a credential is optional, it is for this header.
  const isOptional = security?.some((schemes) => Object.keys(schemes).length === 0)
  expect(/^ *Authorization: Bearer/m.test(text)).toBe(
    isOptional ? text.includes('Gatehouse-Client-Ip') : takesToken,
  )
})

const REASONS: Record<string, string[]> = {
  'events.md': document.components.schemas.Refusals.properties.reason.enum,
  'sign-in.md': document.components.schemas.Problem.properties.reason.enum,
}
test.for(Object.entries(REASONS))('%s explains every reason', async ([name, reasons]) => {
  const text = await read(name)
  expect(reasons.filter((reason) => !text.includes(`\`${reason}\``))).toEqual([])
})

test('the client in the guide keeps one refresh in flight, and repeats a lost one with its key', async () => {
  const { openSession } = await run('sign-in.md')
  const { companyId, email, password } = admin
  const request: typeof fetch = openSession({ companyId, email, password })
  const sessionOf = async (response: Response) =>
    /(?<="session":{"id":")[^"]+/.exec(await response.text())?.[0]
  const id = await sessionOf(await request('/auth/session'))
  service.clock.advance(16 * 60)
  const keys: unknown[] = []
  const { fetch } = globalThis
  onTestFinished(() => void vi.restoreAllMocks())
  vi.spyOn(globalThis, 'fetch').mockImplementation(async (url, init) => {
    const response = await fetch(url, init)
    if (!String(url).endsWith('/auth/refresh')) return response
    keys.push(new Headers(init?.headers).get('idempotency-key'))
    if (keys.length === 1) throw new TypeError('the connection is lost')
    return response
  })
  const answers = await Promise.all(Array.from({ length: 20 }, () => request('/auth/session')))
  expect(new Set(await Promise.all(answers.map(sessionOf)))).toEqual(new Set([id]))
  expect(keys).toEqual([expect.stringMatching(/^[\da-f-]{36}$/), keys[0]])

  // It signs in again when the session has ended, and reports a wrong password without repeating it.
  expect((await request('/auth/logout', { method: 'POST' })).status).toBe(204)
  expect(await sessionOf(await request('/auth/session'))).not.toBe(id)
  const wrong: typeof fetch = openSession({ companyId, email, password: 'wrong' })
  await expect(wrong('/auth/session')).rejects.toThrow('email')
})

test('the code for access tokens verifies one offline (RFC 9068, section 4)', async () => {
  const { verifyAccessToken } = await run('verify.md')
  const { accessToken, session, user } = await service.loginAs(admin)
  const claims = await verifyAccessToken(accessToken, admin.companyId)
  expect(claims).toMatchObject({
    sub: user.id,
    cid: admin.companyId,
    sid: session.id,
    role: 'admin',
    perms: expect.arrayContaining(['members:manage']),
  })
  const { description } = document.info
  const [, chapter = ''] = description.split('## Access tokens\n')
  const listed = [...chapter.split('\n## ')[0].matchAll(/^\| `(\w+)` \|/gm)].map(([, claim]) => claim)
  expect(listed.toSorted()).toEqual(Object.keys(claims).sort())
  expect(chapter).toContain(`| audience: \`${claims.aud}\``)
})

test('the code for access tokens refuses all other tokens', async () => {
  const { verifyAccessToken } = await run('verify.md')
  const { access, refreshToken } = await openForge(service, admin)
  const { header, claims } = access
  await expect(verifyAccessToken(forge(access), admin.companyId)).resolves.toEqual(claims)
  // Anyone can register a company.
  const { companyId } = await service.addCompany()
  await expect(verifyAccessToken(forge(access), companyId)).rejects.toThrow('different company')
  const { sid: _sid, ...withoutSession } = claims
  for (const token of [
    refreshToken,
    forge(access, { payload: { ...claims, iss: 'https://auth.example.com/api' } }),
    forge(access, { payload: { ...claims, aud: 'gatehouse/refresh' } }),
    forge(access, { payload: { ...claims, exp: Math.floor(Date.now() / 1000) - 1 } }),
    forge(access, { payload: withoutSession }),
    forge(access, { header: { ...header, typ: 'rt+jwt' } }),
    forge(access, { header: { ...header, alg: 'none' } }),
    forge(access, { sign: () => Buffer.alloc(64) }),
  ])
    await expect(verifyAccessToken(token, admin.companyId)).rejects.toThrow()
})

test('the code for signed events creates the signature in the guide, and valid ones', async () => {
  const { sign } = await run('events.md')
  const guide = await read('events.md')
  const shown = (name: string) => new RegExp(`^${name} {2,}(.+)$`, 'm').exec(guide)?.[1] ?? ''
  const message = { id: shown('webhook-id'), timestamp: shown('webhook-timestamp'), body: shown('body') }
  const signature = sign(shown('secret'), message)
  expect(signature).toMatch(/^v1,.{44}$/)
  expect(shown('webhook-signature')).toBe(signature)

  const secret = await service.newSecret(admin)
  const body = '{"type":"a","data":{"name":"Zoë"}}'
  const timestamp = Math.floor(service.clock.now() / 1000)
  const statusOf = async (id: string) => {
    const headers = { 'webhook-id': 'one', 'webhook-signature': sign(secret, { id, timestamp, body }) }
    return (await service.send(admin.companyId, secret, body, { headers })).status
  }
  expect([await statusOf('one'), await statusOf('two')]).toEqual([202, 401])
})
