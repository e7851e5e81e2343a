import type { IncomingMessage } from 'node:http'

/** All headers with this lower-case name, in order. Node would join them or keep only one. */
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
