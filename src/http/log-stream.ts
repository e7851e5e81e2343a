import { setTimeout as sleep } from 'node:timers/promises'

/** Standard output as the destination of log lines. A reader that is too slow costs lines, never requests. */
export interface LogStream {
  write(lines: string): void
  flush(): void
  /** Resolves when the reader has taken all lines, or after a second. */
  end(): Promise<void>
  /** Lines that were lost: the reader was too slow, is gone, or its disk is full. */
  readonly lost: number
}

/** A system call for each line would slow down requests. */
const BLOCK_CHARACTERS = 8_192
const FLUSH_EVERY_MS = 100
const MAX_WAITING_CHARACTERS = 1_048_576
const END_MS = 1_000

/** Node writes to pipes and sockets without blocking, and keeps what does not fit. Files are written directly. */
export function createLogStream(out: NodeJS.WriteStream = process.stdout): LogStream {
  if (out.isTTY) unblock(out)
  let block = ''
  let lost = 0

  function flush(): void {
    if (block === '') return
    const lines = block
    out.write(lines, (error) => {
      if (error) lost += countLines(lines)
    })
    block = ''
  }

  // Without a listener, an error of the stream would end the process. The lines are counted above.
  out.on('error', () => {})
  setInterval(flush, FLUSH_EVERY_MS).unref()
  return {
    write(lines) {
      if (out.writableLength + block.length > MAX_WAITING_CHARACTERS) {
        lost += countLines(lines)
        return
      }
      block += lines
      if (block.length >= BLOCK_CHARACTERS) flush()
    },
    flush,
    async end() {
      flush()
      const taken = new Promise((resolve) => out.write('', resolve))
      await Promise.race([taken, sleep(END_MS, undefined, { ref: false })])
    },
    get lost() {
      return lost
    },
  }
}

function countLines(lines: string): number {
  return lines.split('\n').length - 1
}

/** Node lets writes to a terminal block, so one that is held with Ctrl-S would hold the process. */
function unblock(terminal: NodeJS.WriteStream): void {
  const handle: unknown = Reflect.get(terminal, '_handle')
  if (typeof handle === 'object' && handle && 'setBlocking' in handle) {
    if (typeof handle.setBlocking === 'function') handle.setBlocking(false)
  }
}
