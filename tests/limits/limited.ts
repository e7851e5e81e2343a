import { expect } from 'vitest'
import { inWords } from '../../src/errors.ts'
import type { Answer } from '../support/test-service.ts'

let hosts = 0
/** An IPv4 address that no other test uses. */
export const newAddress = () => {
  hosts += 1
  return `198.51.${Math.floor(hosts / 250)}.${(hosts % 250) + 1}`
}
export const from = (address: string) => ({ 'x-forwarded-for': address })

export function expectLimited(answer: Answer, name: string, max: number, windowSeconds: number) {
  expect(answer).toMatchObject({ status: 429, body: { code: 'rate_limited', category: 'rate-limit' } })
  const { headers, body } = answer
  const retryAfter = Number(headers['retry-after'])
  expect(retryAfter).toBeGreaterThanOrEqual(1)
  expect(retryAfter).toBeLessThanOrEqual(windowSeconds)
  expect(headers['ratelimit-policy']).toBe(`"${name}";q=${max};w=${windowSeconds}`)
  expect(headers['ratelimit']).toBe(`"${name}";r=0;t=${retryAfter}`)
  expect(body.detail).toContain(`Retry after ${inWords(retryAfter)}.`)
}

export const remaining = ({ headers }: Answer) => Number(/;r=(\d+);/.exec(String(headers['ratelimit']))?.[1])

export const countStatuses = (answers: Answer[]) =>
  Object.fromEntries(
    [...Map.groupBy(answers, ({ status }) => status)].map(([status, all]) => [status, all.length]),
  )
