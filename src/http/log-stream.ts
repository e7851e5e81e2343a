import { setTimeout as sleep } from 'node:timers/promises'
import { toText } from './logs.ts'

/** Log lines on standard output. A slow reader loses lines, but does not delay requests. */
export interface LogStream {
  write(lines: string): void
  flush(): void
  /** Resolves when the reader has taken all lines, or after a second. */
  end(): Promise<void>
  /** Writes text for people from now on. The first lines wait for `flush`, so that a welcome can precede them. */
  useText(): void
  readonly lost: number
}

/** A system call for each line would slow down requests. */
const BLOCK_CHARACTERS = 8_192
const FLUSH_EVERY_MS = 100
const MAX_WAITING_CHARACTERS = 1_048_576
const END_MS = 1_000

/** Node writes to pipes and sockets without blocking, and keeps the rest in memory. It writes to files directly. */
export function createLogStream(out: NodeJS.WriteStream = process.stdout): LogStream {
  if (out.isTTY) unblock(out)
  let block = ''
  let lost = 0
  let isText = false
  let waits = false

  function flush(): void {
    waits = false
    if (block === '') return
    const lines = block
    out.write(lines, (error) => {
      if (error) lost += countLines(lines)
    })
    block = ''
  }

  // Without a listener, an error of the stream would end the process. `flush` counts the lines.
  out.on('error', () => {})
  setInterval(() => waits || flush(), FLUSH_EVERY_MS).unref()
  return {
    write(lines) {
      if (out.writableLength + block.length > MAX_WAITING_CHARACTERS) {
        lost += countLines(lines)
        return
      }
      block += isText ? toText(lines) : lines
      if (block.length >= BLOCK_CHARACTERS) flush()
    },
    flush,
    async end() {
      flush()
      const taken = new Promise((resolve) => out.write('', resolve))
      await Promise.race([taken, sleep(END_MS, undefined, { ref: false })])
    },
    useText() {
      isText = true
      waits = true
    },
    get lost() {
      return lost
    },
  }
}

function countLines(lines: string): number {
  return lines.split('\n').length - 1
}

/** Node's writes to a terminal block, so Ctrl-S would stop the process. */
function unblock(terminal: NodeJS.WriteStream): void {
  const handle: unknown = Reflect.get(terminal, '_handle')
  if (typeof handle === 'object' && handle && 'setBlocking' in handle) {
    if (typeof handle.setBlocking === 'function') handle.setBlocking(false)
  }
}
