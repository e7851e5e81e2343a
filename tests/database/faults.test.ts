import { expect, test } from 'vitest'
import { toProblem } from '../../src/http/to-problem.ts'

test.each([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'EADDRNOTAVAIL',
  'EMFILE',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EAI_FAIL',
])('a database that cannot be reached (%s) is answered 503 with Retry-After (ASVS 16.5.2)', (code) => {
  const { code: answered, extras } = toProblem(Object.assign(new Error('no way'), { code }))
  expect([answered, extras.retryAfterSeconds]).toEqual(['unavailable', 1])
})
