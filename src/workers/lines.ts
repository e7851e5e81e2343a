import type { Readable } from 'node:stream'

/** Passes on whole lines, so that those of several processes do not mix. A last line that is cut off is lost. */
export function relayLines(from: Readable | null, write: (lines: string) => void): void {
  let rest = ''
  from?.setEncoding('utf8').on('data', (text: string) => {
    const end = text.lastIndexOf('\n') + 1
    if (end === 0) rest += text
    else {
      write(rest + text.slice(0, end))
      rest = text.slice(end)
    }
  })
}
