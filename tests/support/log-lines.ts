import { vi } from 'vitest'
import type { TestService } from './test-service.ts'

export type Line = Record<string, unknown>
type Logging = Pick<TestService, 'logs'>

export function linesOf({ logs }: Logging): Line[] {
  const lines = logs.join('').split('\n').filter(Boolean)
  return lines.map((line) => JSON.parse(line))
}

/** The log lines of a request. They are written after the response, so they can arrive a moment later. */
export async function linesAbout(
  service: Logging,
  answer: { headers: Record<string, unknown> } | undefined,
  count = 1,
): Promise<Line[]> {
  const id = answer?.headers['x-request-id']
  const find = () => {
    const lines = linesOf(service).filter(({ requestId }) => requestId === id)
    return lines.length >= count && lines
  }
  return await vi.waitUntil(find, { timeout: 100_000 })
}
