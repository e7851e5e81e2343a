import { expect, test } from 'vitest'
import { isItemFault } from '../../src/database/faults.ts'
import { toProblem } from '../../src/http/problems.ts'

const failure = (code: string) => Object.assign(new Error('no way'), { code })

/** Codes of network errors, and SQLSTATEs: of passing states (503), of faults in between, and of item faults (500). */
const NETWORK =
  'ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN EADDRNOTAVAIL EMFILE ENOTFOUND EAI_AGAIN EAI_FAIL'
const OF_STATE = '08006 25006 40003 53300 57P01 58030 0A000'
const OF_PASSING_ITEM = '40001 40P01 55P03 57014'
const OF_STATEMENT = '42P01'
const OF_ITEM = '22012 23514 54000 P0001 XX001'

const codesOf = (...lists: string[]) => lists.join(' ').split(' ')

test('transient faults return 503 with Retry-After (ASVS 16.5.2)', () => {
  for (const code of codesOf(NETWORK, OF_STATE, OF_PASSING_ITEM)) {
    const { code: answered, extras } = toProblem(failure(code))
    expect([code, answered, extras.retryAfterSeconds]).toEqual([code, 'unavailable', 1])
  }
})

test('faults of a statement return 500', () => {
  for (const code of codesOf(OF_STATEMENT, OF_ITEM))
    expect([code, toProblem(failure(code)).code]).toEqual([code, 'internal_error'])
})

test('neighbors are retried only after faults that one item can cause', () => {
  const codes = codesOf(NETWORK, OF_STATE, OF_PASSING_ITEM, OF_STATEMENT, OF_ITEM)
  const ofItems = codes.filter((code) => isItemFault(failure(code)))
  expect(ofItems).toEqual(codesOf(OF_PASSING_ITEM, OF_ITEM))
})
