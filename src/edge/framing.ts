import type { IncomingMessage } from 'node:http'
import { Problem } from '../errors.ts'

/** Refuses requests that Node's parser accepts but a proxy in front of it can read differently (RFC 9112). */

const MAX_HEADERS = 100
/** uri-host [ ":" port ] (RFC 9110, section 7.2). Nothing uses the value, so only its form is checked. */
const HOST = /^(?:[\w.~!$&'()*+,;=%-]*|\[[\w.:]+\])(?::\d*)?$/

function headerBytesOf({ url = '', rawHeaders }: IncomingMessage): number {
  return rawHeaders.reduce((bytes, text) => bytes + text.length, url.length)
}

function malformationOf(message: IncomingMessage): string | null {
  const { method, url = '', httpVersion, headers } = message
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    return 'The HTTP version is not supported. Use HTTP/1.1.'
  // The router would take it for the path `/` (section 3.2.4).
  if (url.startsWith('*') && (url !== '*' || method !== 'OPTIONS'))
    return 'Only OPTIONS supports the request target `*`.'
  // Node keeps the first of two. A proxy can have used the second (section 3.2).
  for (const name of ['host', 'content-type']) {
    if (headerValues(message, name).length > 1)
      return 'A request must not have several Host or Content-Type headers.'
  }
  if (headers.host === undefined && httpVersion === '1.1') return 'The Host header is missing.'
  if (headers.host !== undefined && !HOST.test(headers.host)) return 'The Host header is invalid.'
  // Nothing here decodes other codings, and HTTP/1.0 does not have them (section 6.1).
  const coding = headers['transfer-encoding']
  if (coding !== undefined && (httpVersion === '1.0' || coding.toLowerCase() !== 'chunked')) {
    return 'The transfer coding is not supported. Send Content-Length, or `Transfer-Encoding: chunked` with HTTP/1.1.'
  }
  return null
}

/** Some clients send `{}`, `[]`, or `null` with every request. */
export const MAX_UNUSED_BYTES = 4

/** The body of a GET or HEAD has no meaning and can smuggle a request (RFC 9110, section 9.3.1). */
export function unusedBody({ method }: IncomingMessage): Problem {
  return new Problem('malformed_http', `A ${method} request must not have a body.`)
}

/** Whether all percent-escapes are complete UTF-8. Parsers disagree about others. */
export function isDecodable(url: string): boolean {
  if (!url.includes('%')) return true
  try {
    decodeURIComponent(url)
    return true
  } catch {
    return false
  }
}

export function faultOf(message: IncomingMessage, maxHeaderBytes = Number.POSITIVE_INFINITY): Problem | null {
  if (headerBytesOf(message) > maxHeaderBytes)
    return new Problem(
      'headers_too_large',
      'The request line and headers are too large. Send fewer or smaller headers.',
    )
  if (message.rawHeaders.length > 2 * MAX_HEADERS) {
    return new Problem('headers_too_large', `The request has more than ${MAX_HEADERS} headers. Send fewer.`)
  }
  const malformation = malformationOf(message)
  if (malformation) return new Problem('malformed_http', malformation)
  // Only the query can be broken: http/not-found.ts handles paths.
  if (isDecodable(message.url ?? '')) return null
  const errors = [{ path: '/querystring', message: 'must only contain valid percent-encoding of UTF-8' }]
  return new Problem('invalid_request', 'The query contains invalid percent-encoding. Encode it as UTF-8.', {
    errors,
  })
}

/** `name` is lower-case. Node itself joins repeated headers, or keeps only one. */
export function headerValues({ rawHeaders }: IncomingMessage, name: string): string[] {
  const values: string[] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const other = rawHeaders[index]
    // Lengths first, for speed: every request passes here.
    if (other?.length === name.length && other.toLowerCase() === name)
      values.push(rawHeaders[index + 1] ?? '')
  }
  return values
}
