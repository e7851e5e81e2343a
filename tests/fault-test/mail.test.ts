import { describe, expect, test } from 'vitest'
import { checkMail } from '../../scripts/fault-test/checker/mail.ts'
import type { Outcome } from '../../scripts/fault-test/checker/seen.ts'

/** The rule of mails in `npm run fault-test`. */

describe('a mail', () => {
  const ask = (outcome: Outcome) => [{ recipient: 'ada', outcome }]
  const mail = (id: string, at: number) => ({ recipient: 'ada', id, at })

  test('that was acknowledged must come, and one that was refused must not', () => {
    expect(checkMail(ask('ok'), [], [])).toHaveLength(1)
    expect(checkMail(ask('refused'), [mail('1', 5)], [])).toHaveLength(1)
    expect(checkMail(ask('ok'), [mail('1', 5)], [])).toEqual([])
    expect(checkMail(ask('unknown'), [], [])).toEqual([])
    expect(checkMail([], [mail('1', 5)], [])).toHaveLength(1)
  })

  test('comes once, unless a fault disturbed how it was handed over', () => {
    const twice = [mail('1', 5_000), mail('1', 9_000)]
    expect(checkMail(ask('ok'), twice, [])).toHaveLength(1)
    expect(checkMail(ask('ok'), twice, [{ from: 8_000, to: 8_500 }])).toHaveLength(1)
    expect(checkMail(ask('ok'), twice, [{ from: 5_500, to: 8_500 }])).toEqual([])
    expect(checkMail(ask('ok'), [mail('1', 5_000), mail('2', 5_000)], [])).toHaveLength(1)
  })
})
