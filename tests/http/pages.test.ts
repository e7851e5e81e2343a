import { once } from 'node:events'
import { readdir, readlink } from 'node:fs/promises'
import { connect } from 'node:net'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { request } from 'undici'
import { expect, test } from 'vitest'
import { useSharedService } from '../support/test-service.ts'

/** The web application's files as HTTP clients see them. tests/pages has what browsers do with them. */

const { service } = await useSharedService()
const [address = ''] = service.addresses

/** Does not use `fetch`, which would decompress the file. */
async function get(path: string, headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') {
  const { statusCode, body, ...answer } = await request(`${address}${path}`, { method, headers })
  return { status: statusCode, headers: answer.headers, body: Buffer.from(await body.arrayBuffer()) }
}

const DECODERS: Record<string, (body: Buffer) => Buffer> = {
  plain: (body) => body,
  br: brotliDecompressSync,
  gzip: gunzipSync,
}
const FILE_HEADERS = ['content-type', 'content-length', 'content-encoding', 'cache-control', 'vary']
const page = (await get('/')).body.toString()
const assets = page.match(/\/assets\/[^"]+/g) ?? []
const [script = '', style = ''] = ['.js', '.css'].map((end) => assets.find((path) => path.endsWith(end)))

const pick = ({ headers }: Awaited<ReturnType<typeof get>>, names: string[]) =>
  names.map((name) => [name, headers[name]])

test.for<[accepted: string | undefined, encoding: string]>([
  [undefined, 'plain'],
  ['gzip, deflate, br, zstd', 'br'],
  ['GZIP', 'gzip'],
  ['gzip ; q=1.0, br;q=0.5', 'gzip'],
  ['br;q=0, gzip', 'gzip'],
  ['gzip;q=0, *', 'plain'],
  ['xbr, not-gzip', 'plain'],
])(
  'a file is sent to "Accept-Encoding: %s" as %s (RFC 9110, 12.5.3; ASVS 4.2.2)',
  async ([accepted, encoding]) => {
    const headers = { accept: 'text/html', ...(accepted !== undefined && { 'accept-encoding': accepted }) }
    for (const path of ['/', '/nothing', script]) {
      const plain = await get(path, { accept: 'text/html' })
      const answer = await get(path, headers)
      const { 'content-encoding': sent = 'plain', vary, 'content-length': length } = answer.headers
      expect([path, sent, vary]).toEqual([path, encoding, 'accept-encoding'])
      expect(DECODERS[encoding]?.(answer.body).equals(plain.body)).toBe(true)
      expect(Number(length)).toBe(answer.body.length)
      const head = await get(path, headers, 'HEAD')
      expect([head.status, head.body.length]).toEqual([answer.status, 0])
      expect(pick(head, FILE_HEADERS)).toEqual(pick(answer, FILE_HEADERS))
    }
  },
)

test.for([
  ['if-match', '"other"'],
  ['if-none-match', '*'],
  ['if-modified-since', 'Wed, 01 Jan 2070 00:00:00 GMT'],
  ['if-unmodified-since', 'Thu, 01 Jan 1970 00:00:00 GMT'],
  ['range', 'bytes=0-9'],
] as const)('a request for a file with %s: %s gets the whole file', async ([name, value]) => {
  for (const path of ['/', script]) {
    const plain = await get(path)
    expect(plain.headers).not.toHaveProperty('etag')
    const { status, body } = await get(path, { [name]: value })
    expect([path, status, body.equals(plain.body)]).toEqual([path, 200, true])
  }
})

test('each file has its type, and no other file is served (ASVS 13.4.1, 13.4.3, 13.4.7)', async () => {
  const typeOf = async (path: string) => {
    const { status, headers } = await get(path, { 'accept-encoding': 'br' })
    return `${status} ${headers['content-type']}`
  }
  expect(await typeOf('/')).toBe('200 text/html; charset=utf-8')
  expect(await typeOf(script)).toBe('200 text/javascript; charset=utf-8')
  expect(await typeOf(style)).toBe('200 text/css; charset=utf-8')
  const folders = ['/assets', '/assets/', '/docs/assets/', '/.git/config', '/.env', '/package.json']
  for (const path of [...folders, '/index.html', `${script}.br`, `${script}.map`, '/assets/..%2findex.html'])
    expect([path, await typeOf(path)]).toEqual([path, '404 application/problem+json; charset=utf-8'])
})

test('the page has a strict policy, and files cached for a year (ASVS 3.4.3, 3.6.1, 3.7.1, 14.2.3, 14.3.2)', async () => {
  const policy = (await get('/')).headers['content-security-policy']
  expect(policy).toMatch(/default-src 'none'.*frame-ancestors 'none'.*require-trusted-types-for 'script'/)
  expect(policy).not.toContain('unsafe')
  for (const path of assets)
    expect((await get(path)).headers['cache-control']).toBe('public, max-age=31536000, immutable')
})

test.for([
  ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'text/html'],
  ['TEXT/*', 'text/html'],
  ['*/*', 'application/problem+json'],
  ['text/html;q=0, */*', 'application/problem+json'],
  ['application/json, text/html;q=0.9', 'application/problem+json'],
] as const)(
  'unknown paths map "Accept: %s" to %s, uncached (RFC 9110, 12.5.1; ASVS 14.2.5)',
  async ([accept, type]) => {
    for (const path of ['/nothing', '/assets/ABCDEFGH.js']) {
      const { status, headers } = await get(path, { accept })
      expect([status, headers['content-type']]).toEqual([404, `${type}; charset=utf-8`])
      expect(headers['cache-control']).toBe('no-store')
    }
  },
)

test.for([
  // W3C, A Well-Known URL for Changing Passwords.
  ['/.well-known/change-password', '/account'],
  // Instances of the previous release, which may still run, have this page.
  ['/security', '/company'],
] as const)('%s redirects to %s temporarily', async ([path, target]) => {
  const answer = await get(path)
  expect([answer.status, answer.headers['location']]).toEqual([302, target])
  const names = ['content-security-policy', 'cache-control', 'x-content-type-options', 'referrer-policy']
  expect(pick(answer, names)).toEqual(pick(await get(target), names))
})

test.for([
  ...[
    '//evil.example',
    '//evil.example/',
    '/%5cevil.example/',
    '//evil.example/docs/',
    '/docs//evil.example/',
  ],
  ...['/security?next=//evil.example', '/.well-known/change-password?next=https://evil.example'],
])('%s does not redirect to a different origin (ASVS 3.7.2)', async (path) => {
  const location = (await get(path, { accept: 'text/html', host: 'evil.example' })).headers['location']
  expect([undefined, '/company', '/account']).toContain(location)
})

test('the sign-in page takes at most 40 kB with everything it loads', async () => {
  const sent = await Promise.all(
    ['/sign-in', ...assets].map(async (path) => (await get(path, { 'accept-encoding': 'br' })).body.length),
  )
  const sum = sent.reduce((all, bytes) => all + bytes)
  expect(sum).toBeLessThanOrEqual(40_000)
  expect(sum).toBeGreaterThan(20_000)
})

test('only a page with a session cookie preloads the session and the pages behind sign-in', async () => {
  const early = /<link rel="preload" href="\/api\/auth\/session" as="fetch" crossorigin>/
  expect(page).not.toMatch(early)
  const headers = { accept: 'text/html', cookie: '__Host-device=a; __Host-session=b' }
  for (const path of ['/', '/developer', '/nothing']) {
    const signedIn = (await get(path, headers)).body.toString()
    expect(signedIn).toMatch(early)
    const more = (signedIn.match(/\/assets\/[^"]+/g) ?? []).filter((name) => !page.includes(name))
    expect(more.length).toBeGreaterThan(0)
    for (const name of more) expect((await get(name)).status).toBe(200)
  }
})

test('a client that reads no responses keeps no file open', async () => {
  const { hostname, port } = new URL(address)
  // Simulates a full network: bytes wait in the socket.
  service.apps[0]?.server.once('connection', (socket) => socket.cork())
  const socket = connect(Number(port), hostname)
  socket.write(`GET ${script} HTTP/1.1\r\nHost: gatehouse.example\r\n\r\n`.repeat(8))
  await once(socket, 'connect')
  // By this later response, the requests before it have opened their files.
  expect((await get(script)).status).toBe(200)
  const openFiles = async () => {
    const names = (await readdir('/dev/fd')).map((fd) => readlink(`/dev/fd/${fd}`).catch(() => ''))
    return (await Promise.all(names)).filter((name) => name.includes('/dist/'))
  }
  await expect.poll(openFiles).toEqual([])
  expect(socket.readyState).toBe('open')
  socket.destroy()
})
