import { once } from 'node:events'
import { readdir, readlink } from 'node:fs/promises'
import { connect } from 'node:net'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { request } from 'undici'
import { expect, test } from 'vitest'
import { useSharedService } from '../support/test-service.ts'

/** The files of the web application, as programs see them. What browsers do with them is in tests/pages. */

const { service } = await useSharedService()
const [address = ''] = service.addresses

/** As it is sent; `fetch` would decompress it. */
async function get(path: string, headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') {
  const answer = await request(`${address}${path}`, { method, headers })
  return {
    status: answer.statusCode,
    headers: answer.headers,
    body: Buffer.from(await answer.body.arrayBuffer()),
  }
}

const DECODERS: Record<string, (body: Buffer) => Buffer> = {
  plain: (body) => body,
  br: brotliDecompressSync,
  gzip: gunzipSync,
}
const FILE_HEADERS = ['content-type', 'content-length', 'content-encoding', 'cache-control', 'vary']
const page = (await get('/')).body.toString()
const assets = page.match(/\/assets\/[^"]+/g) ?? []

test.for<[accepted: string | undefined, encoding: string]>([
  [undefined, 'plain'],
  ['', 'plain'],
  ['identity', 'plain'],
  ['deflate, zstd', 'plain'],
  ['gzip, deflate, br, zstd', 'br'],
  ['GZIP', 'gzip'],
  ['gzip;q=1.0, br;q=0.5', 'gzip'],
  ['br ; q=0.9 , gzip ; q=0.8', 'br'],
  ['br;q=0', 'plain'],
  ['br;q=0, gzip', 'gzip'],
  ['br;q=0.000, gzip;q=0', 'plain'],
  ['deflate, gzip;q=0.5', 'gzip'],
  ['*', 'plain'],
  ['gzip;q=0, *', 'plain'],
  ['xbr, not-gzip', 'plain'],
])(
  'a request with "Accept-Encoding: %s" gets files as %s (RFC 9110, section 12.5.3)',
  async ([accepted, encoding]) => {
    const [asset = ''] = assets
    for (const path of ['/', '/nothing', asset]) {
      const plain = await get(path, { accept: 'text/html' })
      const headers = { accept: 'text/html', ...(accepted !== undefined && { 'accept-encoding': accepted }) }
      const answer = await get(path, headers)
      const { 'content-encoding': sent = 'plain', vary } = answer.headers
      expect([path, sent, vary]).toEqual([path, encoding, 'accept-encoding'])
      expect(DECODERS[encoding]?.(answer.body).equals(plain.body)).toBe(true)
      const head = await get(path, headers, 'HEAD')
      expect([head.status, head.body.length]).toEqual([answer.status, 0])
      for (const name of FILE_HEADERS)
        expect([name, head.headers[name]]).toEqual([name, answer.headers[name]])
      expect(Number(answer.headers['content-length'])).toBe(answer.body.length)
    }
  },
)

test('conditional and range requests for files get the whole file', async () => {
  for (const path of ['/', assets[0] ?? '']) {
    const plain = await get(path)
    expect(plain.headers).not.toMatchObject({ etag: expect.anything() })
    for (const headers of [
      { 'if-match': '"other"' },
      { 'if-none-match': '*' },
      { 'if-modified-since': 'Wed, 01 Jan 2070 00:00:00 GMT' },
      { 'if-unmodified-since': 'Thu, 01 Jan 1970 00:00:00 GMT' },
      { range: 'bytes=0-9' },
    ]) {
      const { status, body } = await get(path, headers)
      expect([path, headers, status, body.equals(plain.body)]).toEqual([path, headers, 200, true])
    }
  }
})

test('each file has its type, and no other file is served', async () => {
  const typeOf = async (path: string) => {
    const { status, headers } = await get(path, { 'accept-encoding': 'br' })
    return `${status} ${headers['content-type']}`
  }
  const [script = '', style = ''] = ['.js', '.css'].map((end) => assets.find((path) => path.endsWith(end)))
  expect(await typeOf('/')).toBe('200 text/html; charset=utf-8')
  expect(await typeOf(script)).toBe('200 text/javascript; charset=utf-8')
  expect(await typeOf(style)).toBe('200 text/css; charset=utf-8')
  for (const path of ['/index.html', '/assets', '/assets/', `${script}.br`, '/assets/..%2findex.html'])
    expect([path, await typeOf(path)]).toEqual([path, '404 application/problem+json; charset=utf-8'])
})

test.for([
  ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'text/html'],
  ['TEXT/*', 'text/html'],
  ['*/*', 'application/problem+json'],
  ['text/html;q=0, */*', 'application/problem+json'],
  ['application/json, text/html;q=0.9', 'application/problem+json'],
])('an unknown path gives "Accept: %s" %s (RFC 9110, section 12.5.1)', async ([accept = '', type]) => {
  const { status, headers } = await get('/nothing', { accept })
  expect([status, headers['content-type']]).toEqual([404, `${type}; charset=utf-8`])
})

test('a missing file is answered 404, which is not cached', async () => {
  for (const accept of ['*/*', 'text/html']) {
    const { status, headers } = await get('/assets/ABCDEFGH.js', { accept })
    expect([accept, status, headers['cache-control']]).toEqual([accept, 404, 'no-store'])
  }
})

test.for([
  // W3C, A Well-Known URL for Changing Passwords.
  ['/.well-known/change-password', '/account'],
  // The page was there in the release before, of which instances may still run.
  ['/security', '/company'],
])('%s redirects to %s temporarily', async ([path = '', target = '']) => {
  const [answer, ofPage] = [await get(path), await get(target)]
  expect([answer.status, answer.headers['location']]).toEqual([302, target])
  for (const name of [
    'content-security-policy',
    'cache-control',
    'x-content-type-options',
    'referrer-policy',
  ])
    expect([name, answer.headers[name]]).toEqual([name, ofPage.headers[name]])
})

test('the page has a text without scripts, a description, and an icon', () => {
  const [, without = ''] = /<noscript>(.*?)<\/noscript>/s.exec(page) ?? []
  expect(without).toContain('This page needs JavaScript.')
  const [, beside = ''] = /<body>(.*)<\/body>/s.exec(page) ?? []
  expect(beside).toContain('Loading…')
  expect(page).toMatch(/<meta name="description" content="[^"]{50,160}">/)
  for (const scheme of ['light', 'dark'])
    expect(page).toMatch(
      new RegExp(`<meta name="theme-color" media="\\(prefers-color-scheme: ${scheme}\\)" content="#\\w{6}">`),
    )
  const [, icon = ''] = /<link rel="icon" href="data:image\/svg\+xml,([^"]+)">/.exec(page) ?? []
  expect(decodeURIComponent(icon)).toMatch(/^<svg .*<rect .*<path .*<\/svg>$/)
})

test('the first page with all that it loads has at most 60 kB', async () => {
  const sent = await Promise.all(
    ['/sign-in', ...assets].map(async (path) => (await get(path, { 'accept-encoding': 'br' })).body.length),
  )
  const sum = sent.reduce((all, bytes) => all + bytes)
  expect(sum).toBeLessThanOrEqual(60_000)
  expect(sum).toBeGreaterThan(20_000)
})

test('a client that reads no responses keeps no file open', async () => {
  const script = assets.find((path) => path.endsWith('.js')) ?? ''
  const { hostname, port } = new URL(address)
  // As if there was no room for bytes on the way.
  service.apps[0]?.server.once('connection', (socket) => socket.cork())
  const socket = connect(Number(port), hostname)
  socket.write(`GET ${script} HTTP/1.1\r\nHost: gatehouse.example\r\n\r\n`.repeat(8))
  await once(socket, 'connect')
  // The answer to a later request: those before it have opened their files.
  expect((await get(script)).status).toBe(200)
  const openFiles = async () => {
    const names = (await readdir('/dev/fd')).map((fd) => readlink(`/dev/fd/${fd}`).catch(() => ''))
    return (await Promise.all(names)).filter((name) => name.includes('/dist/'))
  }
  await expect.poll(openFiles).toEqual([])
  expect(socket.readyState).toBe('open')
  socket.destroy()
})
