import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Problem } from '../errors.ts'

/** Refuses requests that Node's parser accepts but a proxy in front of it can read differently (RFC 9112). */

const MAX_HEADERS = 100
/** uri-host [ ":" port ] (RFC 9110, section 7.2). Only the form is checked, since nothing uses the value. */
const HOST = /^(?:[\w.~!$&'()*+,;=%-]*|\[[\w.:]+\])(?::\d*)?$/

function faultOf(message: IncomingMessage): string | null {
  const { method, url = '', httpVersion, headers } = message
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return 'This service speaks HTTP/1.1.'
  // The router would take it for the path `/` (section 3.2.4).
  if (url.startsWith('*') && (url !== '*' || method !== 'OPTIONS')) return 'Only OPTIONS asks for `*`.'
  // Node keeps the first of two. A proxy can have used the second (section 3.2).
  for (const name of ['host', 'content-type']) {
    if (headerValues(message, name).length > 1) return 'A request has one Host and one Content-Type header.'
  }
  if (headers.host === undefined && httpVersion === '1.1') return 'A request has a Host header.'
  if (headers.host !== undefined && !HOST.test(headers.host)) return 'The Host header has no valid form.'
  // No other coding is decoded here, and HTTP/1.0 has none (section 6.1).
  const coding = headers['transfer-encoding']
  if (coding !== undefined && (httpVersion === '1.0' || coding.toLowerCase() !== 'chunked')) {
    return 'Send the body with Content-Length, or with `Transfer-Encoding: chunked` in HTTP/1.1.'
  }
  // A body of GET or HEAD has no meaning and can smuggle a request (RFC 9110, section 9.3.1). Two bytes are
  // accepted, since some clients send `{}` with every request.
  const empty = coding === undefined && Number(headers['content-length'] ?? 0) <= 2
  return (method === 'GET' || method === 'HEAD') && !empty ? `A ${method} request has no body.` : null
}

/** Whether all percent-escapes are whole, and UTF-8. Parsers read others differently, or as text. */
function isDecodable(url: string): boolean {
  try {
    decodeURIComponent(url)
    return true
  } catch {
    return false
  }
}

/** The values of all headers with this lower-case name, in order. Node would join them or keep only one. */
export function headerValues({ rawHeaders }: IncomingMessage, name: string): string[] {
  const values: string[] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const other = rawHeaders[index]
    // Lengths first: that is faster, and every request passes here.
    if (other?.length === name.length && other.toLowerCase() === name)
      values.push(rawHeaders[index + 1] ?? '')
  }
  return values
}

async function plugin(app: FastifyInstance): Promise<void> {
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    if (raw.rawHeaders.length > 2 * MAX_HEADERS) {
      return done(new Problem('headers_too_large', `A request has at most ${MAX_HEADERS} headers.`))
    }
    const fault = faultOf(raw)
    if (fault) return done(new Problem('malformed_http', fault))
    // The router has refused such a path already.
    if (isDecodable(raw.url ?? '')) return done()
    const errors = [{ path: '/querystring', message: 'must have percent-escapes of UTF-8 alone' }]
    done(new Problem('invalid_request', 'The query contains a broken %-escape.', { errors }))
  })
}

export const framingPlugin = fp(plugin, { name: 'framing', dependencies: ['headers'] })
