import { connect, type Socket } from 'node:net'

/** Requests as bytes on a socket of their own, for what no HTTP client would send. */

export interface RawAnswer {
  status: number
  headers: Record<string, string>
  body: string
}

/** `from` is the address that the connection comes from, such as 127.0.0.2. */
export function open(address: string, from?: string): Socket {
  const { hostname, port } = new URL(address)
  // The server may close before it has read everything; what it answered counts nevertheless.
  const target = { port: Number(port), host: hostname, ...(from && { localAddress: from }) }
  return connect(target).on('error', () => {})
}

/** Sends bytes, and resolves with all answers once the server has closed the connection. */
export function exchange(address: string, bytes: string | Buffer): Promise<RawAnswer[]> {
  const socket = open(address)
  socket.write(bytes)
  return answersOn(socket)
}

/** All answers on a connection, once the server has closed it. */
export async function answersOn(socket: Socket): Promise<RawAnswer[]> {
  const chunks: string[] = []
  socket.setEncoding('latin1').on('data', (chunk: string) => chunks.push(chunk))
  await new Promise((resolve) => socket.once('end', resolve).once('close', resolve))
  socket.destroy()
  return parseAnswers(chunks.join(''))
}

/** Splits what came over one connection into its answers (RFC 9112, section 6). */
function parseAnswers(text: string): RawAnswer[] {
  const answers: RawAnswer[] = []
  let rest = text
  while (rest !== '') {
    const [head = ''] = rest.split('\r\n\r\n', 1)
    const [statusLine = '', ...lines] = head.split('\r\n')
    const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(statusLine) ?? []
    const headers = Object.fromEntries(
      lines.map((line) => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
      }),
    )
    const bodyAt = head.length + 4
    const nextAt = bodyAt + Number(headers['content-length'] ?? 0)
    answers.push({ status: Number(status), headers, body: rest.slice(bodyAt, nextAt) })
    rest = rest.slice(nextAt)
  }
  return answers
}
