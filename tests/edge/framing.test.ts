import { once } from 'node:events'
import { expect, test } from 'vitest'
import { expectProblem } from '../support/problem.ts'
import { answersOn, exchange, open } from '../support/raw.ts'
import { type Answer, openTestService } from '../support/test-service.ts'

const LISTED = 'https://app.example.com'

const service = await openTestService({ env: { DASHBOARD_ORIGINS: LISTED } })
const [address = ''] = service.addresses
const admin = await service.addCompany()

const HOST = 'Host: gatehouse.example\r\n'
const JSON_TYPE = 'Content-Type: application/json\r\n'
const keySet = (headers = HOST) => `GET /api/.well-known/jwks.json HTTP/1.1\r\n${headers}\r\n`
const get = (headers: string, { target = '/api/auth/session', version = 'HTTP/1.1' } = {}) =>
  `GET ${target} ${version}\r\n${headers}\r\n`
const post = (headers: string, body = '', { version = 'HTTP/1.1' } = {}) =>
  `POST /api/auth/login ${version}\r\n${HOST}${JSON_TYPE}${headers}\r\n${body}`
const CHUNKED = 'Transfer-Encoding: chunked\r\n'
const CHUNKS = '2\r\n{}\r\n0\r\n\r\n'

const malformed: Record<string, string | Buffer> = {
  // A proxy that trusted the other length would take the key set's request for a second one.
  'Content-Length with Transfer-Encoding': post(`Content-Length: 4\r\n${CHUNKED}`, `0\r\n\r\n${keySet()}`),
  'Transfer-Encoding with Content-Length': post(`${CHUNKED}Content-Length: 4\r\n`, `0\r\n\r\n${keySet()}`),
  'two equal Content-Lengths': post('Content-Length: 2\r\nContent-Length: 2\r\n', '{}'),
  'a hexadecimal Content-Length': post('Content-Length: 0x2\r\n', '{}'),
  'Transfer-Encoding: gzip, chunked': post('Transfer-Encoding: gzip, chunked\r\n', CHUNKS),
  'Transfer-Encoding: chunked, gzip': post('Transfer-Encoding: chunked, gzip\r\n', CHUNKS),
  'Transfer-Encoding: chunked twice': post(`${CHUNKED}${CHUNKED}`, CHUNKS),
  'Transfer-Encoding in HTTP/1.0': post(CHUNKED, CHUNKS, { version: 'HTTP/1.0' }),
  'a chunk size that is not a number': post(CHUNKED, 'zz\r\n{}\r\n0\r\n\r\n'),
  'a chunk size of 68 bits': post(CHUNKED, '10000000000000002\r\n{}\r\n0\r\n\r\n'),
  'chunks that end in a bare LF': post(CHUNKED, '2\n{}\n0\n\n'),
  'a chunk extension of 17 KB': post(CHUNKED, `2;${'x'.repeat(17_000)}\r\n{}\r\n0\r\n\r\n`),
  'a GET with a body': get(`${HOST}${JSON_TYPE}Content-Length: 7\r\n`).concat('{"a":1}'),
  'a GET with chunks': get(`${HOST}${CHUNKED}`).concat('7\r\n{"a":1}\r\n0\r\n\r\n'),
  'a folded header line': get(`${HOST}X-Folded: one\r\n two\r\n`),
  'a folded Transfer-Encoding': post('Transfer-Encoding:\r\n chunked\r\n', CHUNKS),
  'lines that end in a bare LF': get(HOST).replaceAll('\r\n', '\n'),
  'one line that ends in a bare LF': get(`${HOST}X-One: 1\nX-Two: 2\r\n`),
  'a bare CR': get(`${HOST}X-One: 1\rX-Two: 2\r\n`),
  'NUL in a header': get(`${HOST}X-One: 1\0\r\n`),
  'NUL in the path': get(HOST, { target: '/api/auth\0/session' }),
  'a byte past ASCII in the path': Buffer.from(get(HOST, { target: '/api/\xff' }), 'latin1'),
  'a space before the colon': get(`${HOST}X-One : 1\r\n`),
  'a space before the first header': get(` X-One: 1\r\n${HOST}`),
  'a header without a colon': get(`${HOST}X-One\r\n`),
  'no Host header': keySet(''),
  'two Host headers': keySet(`${HOST}host: evil.example\r\n`),
  'two Content-Type headers': post('Content-Type: text/plain\r\nContent-Length: 2\r\n', '{}'),
  'a Host header that is not a host': keySet('Host: evil.example/path\r\n'),
  'an asterisk as the target of a GET (section 3.2.4)': get(HOST, { target: '*' }),
  'an asterisk with a query': get(HOST, { target: '*?a=1' }),
  'OPTIONS of an asterisk with a path': get(HOST, { target: '*/x' }).replace('GET', 'OPTIONS'),
  'a request line without a version': get('', { version: '' }),
  'an unknown version of HTTP': get(HOST, { version: 'HTTP/1.2' }),
  "HTTP/2's version on an HTTP/1.1 connection": get(HOST, { version: 'HTTP/2.0' }),
  "HTTP/2's preface": 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'an unknown method': keySet().replace('GET', 'FETCH'),
  'the start of TLS': Buffer.from('16030102000100', 'hex'),
}

const tooLong = {
  'a path of 20 KB': get(HOST, { target: `/api/${'x'.repeat(20_000)}` }),
  'a header of 20 KB': get(`${HOST}X-Long: ${'x'.repeat(20_000)}\r\n`),
  '3,000 headers': get(`${HOST}${'a:b\r\n'.repeat(3_000)}`),
  '101 headers': get(`${HOST}${'a:b\r\n'.repeat(100)}`),
  'a header of 40 KB, which Node refuses': get(`${HOST}X-Long: ${'x'.repeat(40_000)}\r\n`),
  'trailers of 40 KB': post(CHUNKED, `2\r\n{}\r\n0\r\nX-Long: ${'x'.repeat(40_000)}\r\n\r\n`),
}

test.for([
  ...Object.entries(malformed).map((row) => [...row, 400, 'malformed_http'] as const),
  ...Object.entries(tooLong).map((row) => [...row, 431, 'headers_too_large'] as const),
])('%s ends the connection (ASVS 4.2.1, RFC 9112, RFC 6585 section 5)', async ([, bytes, status, code]) => {
  const answers = await exchange(address, bytes)
  expect(answers).toHaveLength(1)
  for (const answer of answers) {
    expectProblem(answer, [status, code])
    expect(answer.headers['connection']).toBe('close')
  }
})

test.for([
  ['100 headers', 'a:b\r\n'.repeat(98)],
  ['an unknown expectation (RFC 9110, section 10.1.1)', 'Expect: the-unexpected\r\n'],
] as const)('a request with %s is served', async ([, headers]) => {
  const answers = await exchange(address, keySet(`${HOST}Connection: close\r\n${headers}`))
  expect(answers.map(({ status }) => status)).toEqual([200])
})

test('only requests before a framing error get a response (RFC 9112, section 9.3.2)', async () => {
  const { accessToken, refreshToken } = await service.loginAs(admin)
  const guarded = get(`${HOST}Authorization: Bearer ${accessToken}\r\n`)
  const refresh = `POST /api/auth/refresh HTTP/1.1\r\n${HOST}Authorization: Bearer ${refreshToken}\r\nContent-Length: 0\r\n\r\n`
  const garbage = 'GARBAGE\r\n\r\n'
  const rows: [string, number[]][] = [
    [keySet() + garbage, [200, 400]],
    [guarded + garbage + keySet(), [200, 400]],
    [guarded + refresh + guarded + garbage, [200, 200, 200, 400]],
    [guarded + post(CHUNKED, 'zz\r\n'), [200, 400]],
    [guarded + post('Content-Length: 4\r\n', `{}\r\n${garbage}`), [200, 400, 400]],
    [guarded + keySet(`${HOST}${HOST}`) + keySet(), [200, 400]],
    [keySet(`${HOST}Connection: close\r\n`) + garbage, [200]],
  ]
  for (const [bytes, statuses] of rows) {
    const answers = await exchange(address, bytes)
    expect(answers.map(({ status }) => status)).toEqual(statuses)
  }
})

test('a framing error after an early response gets no second response (RFC 9112, section 9.3.2)', async () => {
  const early = `POST /api/auth/logout HTTP/1.1\r\n${HOST}${JSON_TYPE}${CHUNKED}\r\n`
  for (const [begin, rest, statuses] of [
    [keySet(), 'GARBAGE\r\n\r\n', [200, 400]],
    // A request with an early response gets no second one.
    [early, 'zz\r\n', [401]],
  ] as const) {
    const socket = open(address)
    const answers = answersOn(socket)
    socket.write(begin)
    await once(socket, 'data')
    socket.write(rest)
    expect((await answers).map(({ status }) => status)).toEqual(statuses)
  }
  // An early response does not overtake responses to earlier requests.
  const { accessToken } = await service.loginAs(admin)
  const guarded = get(`${HOST}Authorization: Bearer ${accessToken}\r\n`)
  const answers = await exchange(address, `${guarded.repeat(7)}${early}zz\r\n`)
  expect(answers.slice(0, -1).map(({ status }) => status)).toEqual(Array.from({ length: 7 }, () => 200))
  expect([400, 401]).toContain(answers.at(-1)?.status)
})

test('CONNECT returns 405 (ASVS 4.1.4)', async () => {
  const [answer] = await exchange(address, `CONNECT other.example:443 HTTP/1.1\r\n${HOST}\r\n`)
  expect(answer && [answer.status, answer.headers['allow']]).toEqual([405, ''])
})

test('slow senders get 408, while others are served (ASVS 13.1.2, RFC 9110 section 15.5.9)', async () => {
  const starts = Object.entries({
    silence: '',
    'half a request line': 'GET /api/auth',
    'half the headers': `GET /api/auth/session HTTP/1.1\r\n${HOST}X-Slow: `,
    'half a body': post(`Content-Length: 100\r\nOrigin: ${LISTED}\r\n`, '{'),
    'half a chunk': post(`${CHUNKED}Origin: ${LISTED}\r\n`, '64\r\n{'),
    'half a second request': `${keySet()}GET /api/auth`,
  })
  async function sendSlowly(start: string) {
    const socket = open(address)
    socket.write(start)
    // An occasional byte keeps an idle timer from firing, but not the deadline.
    const dripping = setInterval(() => socket.write(start && 'x'), 400)
    const answers = await answersOn(socket)
    clearInterval(dripping)
    return answers.at(-1)
  }
  const slow = Promise.all(starts.map(([, start]) => sendSlowly(start)))
  const corsOf = ({ headers = {} }: { headers?: Answer['headers'] } = {}) =>
    Object.entries(headers).filter(([name]) => name.startsWith('access-control-'))
  const cors = corsOf(await service.call('/nothing', { headers: { origin: LISTED } }))
  expect(cors).toHaveLength(3)
  await service.loginAs(admin)
  const answers = await slow
  for (const [index, [name]] of starts.entries()) {
    const answer = answers[index]
    expect([name, answer?.status, answer?.headers['connection']]).toEqual([name, 408, 'close'])
    if (answer) expectProblem(answer, [408, 'request_timeout'])
    expect([name, corsOf(answer)]).toEqual([name, /half a (body|chunk)/.test(name) ? cors : []])
  }
})
