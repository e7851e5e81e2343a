/** Requests as the bytes of HTTP/1.1, prepared so that sending costs the generator little. */

export type Headers = Record<string, string>

export function getText(path: string, headers: Headers = {}): string {
  return `GET ${path} HTTP/1.1\r\nHost: flood.example\r\n${lines(headers)}\r\n`
}

export function postText(path: string, body: string, headers: Headers = {}): string {
  return `${headText(path, Buffer.byteLength(body), headers)}${body}`
}

/** A request up to its body, whose length is given. */
export function headText(path: string, length: number, headers: Headers = {}): string {
  const fixed = 'Host: flood.example\r\nContent-Type: application/json'
  return `POST ${path} HTTP/1.1\r\n${fixed}\r\nContent-Length: ${length}\r\n${lines(headers)}\r\n`
}

function lines(headers: Headers): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
}
