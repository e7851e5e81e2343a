import { connect, type Socket } from 'node:net'

/** Sends requests as bytes, because no HTTP client would send some of them. */

export interface RawAnswer {
  status: number
  headers: Record<string, string>
  body: string
}

/** `from` is the connection's source address, such as 127.0.0.2. */
export function open(address: string, from?: string): Socket {
  const { hostname, port } = new URL(address)
  // The server may close before it has read everything. Its response still counts.
  const target = { port: Number(port), host: hostname, ...(from && { localAddress: from }) }
  return connect(target).on('error', () => {})
}

/** Sends bytes, and resolves with all responses once the server has closed the connection. */
export function exchange(address: string, bytes: string | Buffer): Promise<RawAnswer[]> {
  const socket = open(address)
  socket.write(bytes)
  return answersOn(socket)
}

/** All responses on a connection, once the server has closed it. */
export async function answersOn(socket: Socket): Promise<RawAnswer[]> {
  const chunks: string[] = []
  socket.setEncoding('latin1').on('data', (chunk: string) => chunks.push(chunk))
  await new Promise((resolve) => socket.once('end', resolve).once('close', resolve))
  socket.destroy()
  return parseAnswers(chunks.join(''))
}

/** Splits the bytes of a connection into responses (RFC 9112, section 6). */
function parseAnswers(text: string): RawAnswer[] {
  if (text === '') return []
  const [, status, fields = '', rest = ''] =
    /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n(.*)$/s.exec(text) ?? []
  const headers: RawAnswer['headers'] = {}
  for (const [, name = '', value = ''] of fields.matchAll(/^([^:\n]+): *(.*)/gm))
    headers[name.toLowerCase()] = value
  const length = Number(headers['content-length'] ?? 0)
  const answer = { status: Number(status), headers, body: rest.slice(0, length) }
  return [answer, ...parseAnswers(rest.slice(length))]
}
