import { createHash } from 'node:crypto'
import type { IsBreached } from './password-policy.ts'

/** Asks a breach list by five digits of the SHA-1 alone. If it fails or is late, no password is refused. */

const TIMEOUT_MS = 1_000
const MAX_ANSWER_BYTES = 1024 * 1024

export function createIsBreached(
  url: string | undefined,
  onFailure: (cause: string) => void,
): IsBreached | undefined {
  if (url === undefined) return undefined
  return async (password) => {
    const hash = createHash('sha1').update(password.normalize('NFC')).digest('hex').toUpperCase()
    try {
      const lines = await readRange(`${url}/${hash.slice(0, 5)}`)
      return lines.some((line) => isMatch(line, hash.slice(5)))
    } catch (error) {
      onFailure(error instanceof Error ? error.name : 'Error')
      return false
    }
  }
}

/** A line is SUFFIX:COUNT. Padding, which hides the number of lines, has the count 0. */
function isMatch(line: string, suffix: string): boolean {
  const [known = '', count = ''] = line.trim().split(':')
  return known.toUpperCase() === suffix && Number(count) > 0
}

async function readRange(url: string): Promise<string[]> {
  const answer = await fetch(url, {
    headers: { 'add-padding': 'true', 'user-agent': 'gatehouse', accept: 'text/plain' },
    redirect: 'error',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  if (answer.status !== 200 || !answer.body) {
    await answer.body?.cancel()
    throw new UnexpectedAnswer()
  }
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of answer.body) {
    size += chunk.byteLength
    // Leaving the loop cancels the rest.
    if (size > MAX_ANSWER_BYTES) throw new UnexpectedAnswer()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('latin1').split('\n')
}

class UnexpectedAnswer extends Error {
  override name = 'UnexpectedAnswer'
}
