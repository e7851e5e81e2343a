import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { userInfo } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { beforeEach, expect, inject, test } from 'vitest'
import { findPlace, isListening } from '../../scripts/kit/places.ts'
import { openFolder, whenDone } from '../support/cleanup.ts'
import { cutOff } from '../support/postgres.ts'
import { exchange } from '../support/raw.ts'
import { openTestService, times } from '../support/test-service.ts'

/** The shipped nginx recipe in front of a service. Only its addresses are changed. */

const RECIPE = await readFile(resolve(import.meta.dirname, '../../deploy/nginx.conf'), 'utf8')
const PUBLIC_URL = 'https://auth.example'

/** A service without code for sessions, and the requests that it received. */
const received: { method: string; headers: IncomingHttpHeaders; body: string }[] = []
const toy = createServer(async (message, answer) => {
  const { method = '', headers, url } = message
  received.push({ method, headers, body: await text(message).catch(() => 'cut off') })
  answer.writeHead(url === '/risk/broken' ? 500 : 200).end('of the service')
}).listen(0, '127.0.0.1')
await once(toy, 'listening')
whenDone(async () => void toy.close())
beforeEach(() => {
  received.length = 0
})

async function startNginx(platform: string): Promise<string> {
  const folder = await openFolder()
  await chmod(folder, 0o755)
  const place = await findPlace()
  const listener = `${place.host}:${place.port}`
  const recipe = [
    ['127.0.0.1:3002', new URL(platform).host],
    ['127.0.0.1:4000', `127.0.0.1:${Object(toy.address()).port}`],
    ['127.0.0.1:8080', listener],
  ].reduce((text, [from = '', to = '']) => {
    expect(text.split(from)).toHaveLength(2)
    return text.replace(from, to)
  }, RECIPE)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${name};`,
  )
  await writeFile(join(folder, 'recipe.conf'), recipe)
  await writeFile(
    join(folder, 'nginx.conf'),
    `daemon off; pid nginx.pid; user ${userInfo().username}; error_log stderr; events {}
    http { access_log off; ${temporary.join(' ')} include recipe.conf; }`,
  )
  const nginx = spawn('/usr/sbin/nginx', ['-p', folder, '-c', 'nginx.conf', '-e', 'stderr'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  nginx.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  await once(nginx, 'spawn').catch((cause: Error) => {
    throw new Error('nginx is missing: apt-get install -y --no-install-recommends nginx-light', { cause })
  })
  whenDone(async () => {
    nginx.kill('SIGTERM')
    if (nginx.exitCode === null && nginx.signalCode === null) await once(nginx, 'exit')
  })
  while (!(await isListening(place))) {
    if (nginx.exitCode !== null) throw new Error(`nginx did not start:\n${said}`)
    await sleep(20)
  }
  return `http://${listener}`
}

const openService = () => openTestService({ env: { PUBLIC_URL } })
const service = await openService()
const url = await startNginx(service.platformAddresses[0] ?? '')
const admin = await service.addCompany()

type Headers = Record<string, string | string[]>

async function ask(path: string, headers: Headers, { method = 'GET', body = '', at = url } = {}) {
  const answer = await request(`${at}${path}`, { method, headers, body: body || null })
  return { status: answer.statusCode, headers: answer.headers, body: await answer.body.text() }
}
const withCookie = (cookie: string) => ({ cookie: `__Host-session=${cookie}` })
const VIEWER = { 'x-auth-role': 'viewer', 'x-auth-permissions': 'risk:read analytics:read' }
const withToken = (token: string) => ({ authorization: `Bearer ${token}` })

test("a page gets the session's user, but no credential", async () => {
  const member = await service.addUser(admin, 'viewer')
  const cookie = await service.cookieOf(member)
  const { status, headers, body } = await ask('/risk/', {
    cookie: `a=1; __Host-session=${cookie}; theme=dark; __Host-device=secret; b="2"`,
    authorization: '',
  })
  expect([status, body, received.length]).toEqual([200, 'of the service', 1])
  // HAProxy would replace the security headers of a response without it.
  expect(headers['x-request-id']).toMatch(/^[0-9a-f]{32}$/)
  expect(received[0]?.headers).toMatchObject({
    'x-auth-company': member.companyId,
    'x-auth-user': member.userId,
    'x-auth-session': expect.stringMatching(/^[0-9a-f-]{36}$/),
    ...VIEWER,
    cookie: 'a=1; theme=dark; b="2"',
  })
  expect(received[0]?.headers).not.toHaveProperty('authorization')
})

test.for([
  ['COOKIE', undefined],
  ['COOKIE; a=1', 'a=1'],
  ['a=1;COOKIE;b=2', 'a=1;b=2'],
  ['x__Host-session=1; COOKIE; y=__Host-session=2', 'x__Host-session=1; y=__Host-session=2'],
] as const)('a page gets "%s" without the session cookie', async ([sent, left]) => {
  const cookie = sent.replace('COOKIE', `__Host-session=${await service.cookieOf(admin)}`)
  expect((await ask('/risk/', { cookie })).status).toBe(200)
  expect(received[0]?.headers.cookie).toBe(left)
})

test('clients cannot set the headers that identify the user', async () => {
  const cookie = await service.cookieOf(await service.addUser(admin, 'viewer'))
  const forged = {
    'x-auth-user': admin.userId,
    'X-AUTH-ROLE': 'admin',
    x_auth_role: 'admin',
    'x-auth-permissions': ['members:manage', 'audit:read'],
    'x-auth-error': 'none',
  }
  expect((await ask('/risk/', { ...withCookie(cookie), ...forged })).status).toBe(200)
  const headers = received[0]?.headers ?? {}
  expect(headers).toMatchObject(VIEWER)
  expect(JSON.stringify(headers)).not.toMatch(/admin|members:manage|x_auth|x-auth-error/)
  expect(headers['x-auth-user']).not.toBe(admin.userId)
})

test('a different site cannot act with the cookie (ASVS 3.5.1)', async () => {
  const cookie = withCookie(await service.cookieOf(admin))
  const send = async (headers: Headers, method = 'POST') =>
    (await ask('/risk/', { ...cookie, ...headers }, { method, body: 'x=1' })).status
  const statuses = [
    await send({}),
    await send({ 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }),
    await send({ origin: 'https://evil.example' }, 'DELETE'),
    // The client's headers about its method are ignored.
    await send({ 'sec-fetch-site': 'cross-site', 'x-original-method': 'GET', 'x-forwarded-method': 'GET' }),
  ]
  expect([statuses, received]).toEqual([[403, 403, 403, 403], []])
  expect(await send({ 'sec-fetch-site': 'same-origin' })).toBe(200)
  expect(await send({ origin: PUBLIC_URL }, 'PUT')).toBe(200)
  expect(received.map(({ method, body }) => `${method} ${body}`)).toEqual(['POST x=1', 'PUT x=1'])
})

test('a different site cannot open a WebSocket with the cookie (ASVS 4.4.2)', async () => {
  const cookie = await service.cookieOf(admin)
  const handshake = async (origin: string, header: string) => {
    const head = `GET /risk/ HTTP/1.1\r\nHost: auth.example\r\nConnection: Upgrade, close\r\nOrigin: ${origin}`
    const bytes = `${head}\r\nCookie: __Host-session=${cookie}\r\n${header}\r\n\r\n`
    return (await exchange(url, bytes))[0]?.status
  }
  for (const header of [
    'Upgrade: websocket',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    'Sec-Fetch-Mode: websocket',
  ]) {
    expect([header, await handshake('https://evil.example', header)]).toEqual([header, 403])
    expect([header, await handshake(PUBLIC_URL, header)]).toEqual([header, 200])
  }
})

test('a page rejects access tokens, and gets why a cookie is refused', async () => {
  const cookie = await service.cookieOf(admin)
  const { accessToken: token } = await service.loginAs(admin)
  expect((await ask('/risk/', withToken(token))).status).toBe(401)
  await service.call('/auth/logout', { cookie })
  const { status, headers } = await ask('/risk/', withCookie(cookie))
  expect([status, headers['x-auth-error'], received]).toEqual([401, 'session_ended', []])
})

test('an API takes only access tokens, by any method, without seeing them', async () => {
  const { accessToken, refreshToken, session } = await service.loginAs(admin)
  for (const method of ['GET', 'POST', 'DELETE']) {
    expect((await ask('/risk/api/', withToken(accessToken), { method })).status).toBe(200)
  }
  const { id } = session
  expect(received.map(({ headers }) => headers['x-auth-session'])).toEqual([id, id, id])
  expect(JSON.stringify(received)).not.toContain(accessToken)
  const cookie = withCookie(await service.cookieOf(admin))
  for (const headers of [{}, cookie, withToken(refreshToken), withToken('a.b.c')]) {
    const { status, headers: given } = await ask('/risk/api/', headers)
    expect([status, given['www-authenticate']]).toEqual([401, expect.stringMatching(/^Bearer /)])
  }
  expect(received).toHaveLength(3)
})

test('an API rejects users without the permission (ASVS 8.3.2)', async () => {
  const { accessToken } = await service.loginAs(await service.addUser(admin, 'viewer'))
  const { status, headers } = await ask('/risk/api/', withToken(accessToken))
  expect([status, headers['x-auth-error'], received]).toEqual([403, 'permission_denied', []])
})

test("verification is not reachable from outside, and the service's errors are kept", async () => {
  for (const path of ['/verify-page', '/verify-api', '/@no_verdict'])
    expect((await ask(path, withCookie(await service.cookieOf(admin)))).status).toBe(404)
  const { status, body } = await ask('/risk/broken', withCookie(await service.cookieOf(admin)))
  expect([status, body]).toEqual([500, 'of the service'])
})

test('requests get 503 while gatehouse or its database is away', async () => {
  const other = await openService()
  const at = await startNginx(other.platformAddresses[0] ?? '')
  const person = await other.addCompany()
  const cookie = withCookie(await other.cookieOf(person))
  const token = withToken((await other.loginAs(person)).accessToken)
  expect((await ask('/risk/', cookie, { at })).status).toBe(200)
  received.length = 0
  async function expectUnavailable() {
    const answers = [await ask('/risk/', cookie, { at }), await ask('/risk/api/', token, { at })]
    expect(answers).toMatchObject(times(2, () => ({ status: 503, headers: { 'retry-after': '1' } })))
    expect(received).toEqual([])
  }
  await cutOff(inject('serverUrl'), new URL(other.url).pathname.slice(1))
  await expectUnavailable()
  await other.platforms[0]?.close()
  await expectUnavailable()
})
