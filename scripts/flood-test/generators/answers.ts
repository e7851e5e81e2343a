/** Finds the status lines in what a connection sends. It is all that a flood reads of its answers. */
interface AnswerReader {
  /** The statuses of the answers that begin in this chunk. */
  read(chunk: string): string[]
}

const STATUS_LINE = /HTTP\/1\.1 (\d{3}) /g
/** The longest part of a status line that says nothing yet. */
const CARRY = 'HTTP/1.1 200'.length

export function createAnswerReader(): AnswerReader {
  let carried = ''
  return {
    read(chunk) {
      const text = carried + chunk
      const statuses = [...text.matchAll(STATUS_LINE)].map(([, status = '']) => status)
      carried = text.slice(-CARRY)
      return statuses
    },
  }
}
