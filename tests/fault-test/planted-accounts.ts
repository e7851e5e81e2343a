import type { Part } from '../../scripts/fault-test/checker/history.ts'
import { LOST, operation, type Planted, refused } from './planted.ts'

/** Histories of members, their second factors, and sessions with a cookie. */

const session = { kind: 'session', id: 's' } as const
const logout: Part = { ...session, act: 'end', isOwn: true }
const openByCookie: Part = { ...session, act: 'open', owner: 'm', token: 'c0' }
const useBy = (cookie: string): Part => ({ ...session, act: 'use', cookie })
const renew = (cookie: string, successor: string | null): Part => ({
  ...session,
  ...{ act: 'renew', cookie, successor },
})
const member = { kind: 'member', id: 'm' } as const
const make: Part = { ...member, act: 'make', role: 'viewer', email: 'ada', password: 'old' }
const read = (role: string, status: string): Part => ({ ...member, act: 'read', role, status })
const disable: Part = { ...member, act: 'change', status: 'disabled' }
const signIn = (password: string, email = 'ada'): Part => ({ ...member, act: 'sign-in', email, password })
const move: Part = { ...member, act: 'move', email: 'ada at home' }
const undo: Part = { ...member, act: 'undo', email: 'ada' }
const factor = { kind: 'factor', id: 'm' } as const
const enrol: Part = { ...factor, act: 'enrol', secret: 'app', step: 5, codes: ['a', 'b'] }
const ask = (challenge: string): Part => ({ ...factor, act: 'ask', challenge })
const answer = (challenge: string, code: string): Part => ({
  ...factor,
  ...{ act: 'answer', challenge, proof: { code } },
})
const answerByApp = (challenge: string, step: number): Part => ({
  ...factor,
  ...{ act: 'answer', challenge, proof: { secret: 'app', step } },
})
const enter: Part = { ...factor, act: 'enter' }
const password = (from: string | null, to: string | null): Part => ({ ...member, act: 'password', from, to })

/** Each of them doubles the orders that are possible. */
const hundredsLost = Array.from({ length: 300 }, (_, n) => {
  const role = ['analyst', 'developer', 'viewer'][n % 3] ?? ''
  const parts = [password(null, `new ${n % 30}`), { ...member, act: 'change', role } as const, disable]
  return operation(2 + n, parts.slice(n % 3, (n % 3) + 1), LOST)
})
const afterHundreds = [
  operation(0, [make]),
  ...hundredsLost,
  operation(400, [read('developer', 'active')]),
  operation(402, [signIn('new 12')]),
]

export const ILLEGAL: Planted = {
  'hundreds of changes of one member are lost, and none of them is what is seen': [
    ...afterHundreds,
    operation(404, [signIn('another')]),
  ],
  'a cookie works after a proof replaced it': [
    operation(0, [openByCookie]),
    operation(2, [renew('c0', 'c1')]),
    operation(4, [useBy('c0')]),
  ],
  'a cookie is replaced twice': [
    operation(0, [openByCookie]),
    operation(2, [renew('c0', 'c1')], { end: 9 }),
    operation(3, [renew('c0', 'c2')], { end: 9 }),
  ],
  'the newest cookie is unknown': [
    operation(0, [openByCookie]),
    operation(2, [renew('c0', 'c1')]),
    operation(4, [useBy('c1')], refused('invalid_token')),
  ],
  'a cookie works after the logout': [
    operation(0, [openByCookie]),
    operation(2, [logout]),
    operation(4, [useBy('c0')]),
  ],
  'a disabled member signs in': [
    operation(0, [make]),
    operation(2, [disable]),
    operation(4, [signIn('old')]),
  ],
  'a change of a role is undone': [
    operation(0, [make]),
    operation(2, [{ ...member, act: 'change', role: 'analyst' }]),
    operation(4, [read('viewer', 'active')]),
  ],
  'an old password works': [
    operation(0, [make]),
    operation(2, [password('old', 'new')]),
    operation(4, [signIn('old')]),
  ],
  'the right password is refused': [
    operation(0, [make]),
    operation(2, [signIn('old')], refused('invalid_credentials')),
  ],
  'a void password works': [
    operation(0, [make]),
    operation(2, [password(null, null)]),
    operation(4, [signIn('old')]),
  ],
  'a former e-mail signs in': [operation(0, [make]), operation(2, [move]), operation(4, [signIn('old')])],
  'a confirmed e-mail is undone by itself': [
    operation(0, [make]),
    operation(2, [move]),
    operation(4, [signIn('old', 'ada at home')], refused('invalid_credentials')),
  ],
  'a link to undo leaves the password': [
    operation(0, [make]),
    operation(2, [move]),
    operation(4, [undo]),
    operation(6, [signIn('old')]),
  ],
  'a link to undo leaves the e-mail': [
    operation(0, [make]),
    operation(2, [move]),
    operation(4, [undo]),
    operation(6, [password(null, 'new')]),
    operation(8, [signIn('new')], refused('invalid_credentials')),
  ],
  'a second factor is asked for after a wrong password': [
    operation(0, [make]),
    operation(2, [signIn('other')], refused('second_factor_required')),
  ],
  'a password alone signs in although there is a factor': [operation(0, [enrol]), operation(2, [enter])],
  'a factor is asked for that was never added': [operation(0, [ask('x')], refused('second_factor_required'))],
  'a recovery code works twice': [
    operation(0, [enrol]),
    operation(2, [ask('x')]),
    operation(4, [answer('x', 'a')]),
    operation(6, [ask('y')]),
    operation(8, [answer('y', 'a')]),
  ],
  'two that race answer with one recovery code': [
    operation(0, [enrol]),
    operation(2, [ask('x')]),
    operation(3, [ask('y')]),
    operation(4, [answer('x', 'a')], { end: 9 }),
    operation(5, [answer('y', 'a')], { end: 9 }),
  ],
  'a recovery code in force is refused': [
    operation(0, [enrol]),
    operation(2, [ask('x')]),
    operation(4, [answer('x', 'a')], refused('invalid_second_factor')),
  ],
  'a recovery code works after others replaced it': [
    operation(0, [enrol]),
    operation(2, [{ ...factor, act: 'replace', codes: ['c'] }]),
    operation(4, [ask('x')]),
    operation(6, [answer('x', 'a')]),
  ],
  'the code of an app works twice': [
    operation(0, [enrol]),
    operation(2, [ask('x')]),
    operation(4, [answerByApp('x', 6)]),
    operation(6, [ask('y')]),
    operation(8, [answerByApp('y', 6)]),
  ],
  'the code that confirmed an app works again': [
    operation(0, [enrol]),
    operation(2, [ask('x')]),
    operation(4, [answerByApp('x', 5)]),
  ],
  'one challenge lets two in': [
    operation(0, [enrol]),
    operation(2, [ask('x')]),
    operation(4, [answer('x', 'a')], { end: 9 }),
    operation(5, [answer('x', 'b')], { end: 9 }),
  ],
  'a challenge lives on after a reset of the password': [
    operation(0, [enrol]),
    operation(2, [ask('x')]),
    operation(4, [{ ...factor, act: 'forget' }]),
    operation(6, [answer('x', 'a')]),
  ],
  'a factor lives on after it was taken back': [
    operation(0, [enrol]),
    operation(2, [{ ...factor, act: 'reset' }]),
    operation(4, [ask('x')]),
  ],
  'an app is removed twice': [
    operation(0, [enrol]),
    operation(2, [{ ...factor, act: 'remove', secret: 'app' }], { end: 9 }),
    operation(3, [{ ...factor, act: 'remove', secret: 'app' }], { end: 9 }),
  ],
  'a deleted member is there': [
    operation(0, [make]),
    operation(2, [{ ...member, act: 'delete' }]),
    operation(4, [read('viewer', 'active')]),
  ],
  'an acknowledged member is not there': [
    operation(0, [make]),
    operation(2, [read('', '')], refused('not_found')),
  ],
}

export const LEGAL: Planted = {
  'hundreds of changes of one member are lost': afterHundreds,
  'a cookie is replaced in the dark': [
    operation(0, [openByCookie]),
    operation(2, [renew('c0', null)], LOST),
    operation(4, [useBy('c0')]),
    operation(6, [useBy('c0')], refused('invalid_token')),
    operation(8, [renew('c0', null)], refused('session_ended')),
  ],
  'a lost answer has used a recovery code, and its challenge': [
    operation(0, [enrol]),
    operation(2, [ask('x')]),
    operation(4, [answer('x', 'a')], LOST),
    operation(6, [answer('x', 'a')], refused('invalid_second_factor')),
    operation(8, [ask('y')]),
    operation(9, [answer('y', 'b')]),
  ],
  'a lost answer ends a challenge late': [
    operation(0, [enrol]),
    operation(2, [ask('x')]),
    operation(4, [answer('x', 'a')], LOST),
    operation(6, [ask('y')]),
    operation(8, [answer('y', 'b')], refused('invalid_second_factor')),
  ],
  'recovery codes are replaced, and nobody gets them': [
    operation(0, [enrol]),
    operation(2, [{ ...factor, act: 'replace', codes: null }], LOST),
    operation(4, [ask('x')]),
    operation(6, [answer('x', 'a')], refused('invalid_second_factor')),
    operation(8, [answerByApp('x', 6)]),
  ],
  'an app is confirmed again after a lost answer': [
    operation(0, [{ ...factor, act: 'enrol', secret: 'app', step: 5, codes: null }], LOST),
    operation(2, [{ ...factor, act: 'enrol', secret: 'app', step: 5, codes: null }], refused('not_found')),
    operation(4, [ask('x')]),
  ],
}
