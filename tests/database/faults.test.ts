import { expect, test } from 'vitest'
import { isItemFault } from '../../src/database/faults.ts'
import { toProblem } from '../../src/http/to-problem.ts'

const failure = (code: string) => Object.assign(new Error('no way'), { code })

/** Of the network, and SQLSTATEs of a state that passes (503), of faults in between, and of one item each (500). */
const NETWORK =
  'ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN EADDRNOTAVAIL EMFILE ENOTFOUND EAI_AGAIN EAI_FAIL'
const OF_STATE = '08006 25006 40003 53300 57P01 58030 0A000'
const OF_PASSING_ITEM = '40001 40P01 55P03 57014'
const OF_STATEMENT = '42P01'
const OF_ITEM = '22012 23514 54000 P0001 XX001'

test.each([NETWORK, OF_STATE, OF_PASSING_ITEM].flatMap((codes) => codes.split(' ')))(
  'the fault %s of a database is answered 503 with Retry-After (ASVS 16.5.2)',
  (code) => {
    const { code: answered, extras } = toProblem(failure(code))
    expect([answered, extras.retryAfterSeconds]).toEqual(['unavailable', 1])
  },
)

test.each([OF_STATEMENT, OF_ITEM].flatMap((codes) => codes.split(' ')))(
  'the fault %s of a statement is answered 500',
  (code) => expect(toProblem(failure(code)).code).toBe('internal_error'),
)

test('only faults that one item can cause let its neighbors be tried again', () => {
  const codes = [NETWORK, OF_STATE, OF_PASSING_ITEM, OF_STATEMENT, OF_ITEM].join(' ').split(' ')
  const ofItems = codes.filter((code) => isItemFault(failure(code)))
  expect(ofItems).toEqual([OF_PASSING_ITEM, OF_ITEM].join(' ').split(' '))
})
