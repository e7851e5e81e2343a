import { describe, expect, test } from 'vitest'
import { check } from '../../scripts/fault-test/checker/check.ts'
import { findDisordered, findTakenBack } from '../../scripts/fault-test/checker/feed.ts'
import type { Part } from '../../scripts/fault-test/checker/history.ts'
import { legalHistory } from './legal-histories.ts'
import { LOST, operation, type Planted, refused } from './planted.ts'

/** The checker of `npm run fault-test`: it must find what is planted, and accept what is legal. */

/** As late as anything happens in the legal ones. */
const LATE_MS = 160
const latest = ({ end }: { end: number }) => end + LATE_MS

const session = { kind: 'session', id: 's' } as const
const open: Part = { ...session, act: 'open', owner: 'm', token: 't0' }
const use: Part = { ...session, act: 'use' }
const logout: Part = { ...session, act: 'end', isOwn: true }
const refresh = (token: string, successor: string | null, key: string | null = null): Part => ({
  ...session,
  ...{ act: 'refresh', token, successor, key },
})
const prove = (successor: string | null, key: string | null = null): Part => ({
  ...session,
  ...{ act: 'prove', successor, key },
})
const openByCookie: Part = { ...session, act: 'open', owner: 'm', token: 'c0' }
const useBy = (cookie: string): Part => ({ ...session, act: 'use', cookie })
const renew = (cookie: string, successor: string | null): Part => ({
  ...session,
  ...{ act: 'renew', cookie, successor },
})
const event = { kind: 'event', id: 'e' } as const
const send = (content: string, isNew: boolean | null = null, isNamed = false): Part => ({
  ...event,
  ...{ act: 'send', content, isNew, isNamed },
})
const stored = (...contents: string[]): Part => ({ ...event, act: 'read', contents })
const BATCH: Part[] = [
  send('a'),
  { ...event, act: 'send', id: 'f', content: 'a', isNew: null, isNamed: false },
]
const secret = { kind: 'secret', id: 'c' } as const
const regenerate = (version: number | null, made: string | null, expected: number | null = null): Part => ({
  ...secret,
  ...{ act: 'regenerate', expected, version, secret: made },
})
const sign = (by: string): Part => ({ ...secret, act: 'sign', secret: by })
const token = (act: 'consume' | 'preview' | 'void'): Part => ({ kind: 'token', id: 'reset', act })

const ILLEGAL: Planted = {
  'a session is used after its logout': [operation(0, [open]), operation(2, [logout]), operation(4, [use])],
  'a session is refreshed after its logout': [
    operation(0, [open]),
    operation(2, [logout]),
    operation(4, [refresh('t0', 't1')]),
  ],
  'a session is used after somebody else ended it': [
    operation(0, [open]),
    operation(2, [{ ...session, act: 'end', isOwn: false }]),
    operation(4, [use]),
  ],
  'a session is used after all of its member ended': [
    operation(0, [open]),
    operation(2, [{ kind: 'sessions', id: 'm', act: 'end', kept: 'other' }]),
    operation(4, [use]),
  ],
  'a session ends by itself': [operation(0, [open]), operation(2, [use], refused('session_ended'))],
  'a refusal says that a session has ended, and then it is used': [
    operation(0, [open]),
    operation(2, [logout], LOST),
    operation(4, [use], refused('session_ended')),
    operation(6, [use]),
  ],
  'two that overlap get different successors of one token': [
    operation(0, [open]),
    operation(2, [refresh('t0', 't1')], { end: 9 }),
    operation(3, [refresh('t0', 't2')], { end: 9 }),
  ],
  "a client's own retry is called theft": [
    operation(0, [open]),
    operation(2, [refresh('t0', null, 'k')], LOST),
    operation(4, [refresh('t0', null, 'k')], refused('refresh_reuse')),
  ],
  "a client's own retry is refused though its successor is unused": [
    operation(0, [open]),
    operation(2, [refresh('t0', null, 'k')], LOST),
    operation(4, [refresh('t0', null, 'k')], refused('refresh_token_reused')),
  ],
  'a token of two exchanges ago is not called theft': [
    operation(0, [open]),
    operation(2, [refresh('t0', 't1', 'k')]),
    operation(4, [refresh('t1', 't2', 'l')]),
    operation(6, [refresh('t0', null)], refused('refresh_token_reused')),
  ],
  'a logout of a live session is refused': [
    operation(0, [open]),
    operation(2, [logout], refused('invalid_token')),
  ],
  'a proof of a live session is refused': [
    operation(0, [open]),
    operation(2, [prove(null)], refused('invalid_token')),
  ],
  'a lost logout happens far too late': [
    operation(0, [open]),
    operation(2, [logout], LOST),
    operation(4 + LATE_MS, [use]),
    operation(6 + LATE_MS, [use], refused('session_ended')),
  ],
  'a token works again for a client without a key': [
    operation(0, [open]),
    operation(2, [refresh('t0', 't1')]),
    operation(4, [refresh('t0', 't1')]),
  ],
  'a retry gets another successor': [
    operation(0, [open]),
    operation(2, [refresh('t0', 't1', 'k')]),
    operation(4, [refresh('t0', 't2', 'k')]),
  ],
  'a retry works after its successor was used': [
    operation(0, [open]),
    operation(2, [refresh('t0', 't1', 'k')]),
    operation(4, [refresh('t1', 't2', 'l')]),
    operation(6, [refresh('t0', 't1', 'k')]),
  ],
  'an acknowledged rotation is undone': [
    operation(0, [open]),
    operation(2, [refresh('t0', 't1')]),
    operation(4, [refresh('t1', null)], refused('refresh_token_reused')),
  ],
  'an earlier token is the current one again': [
    operation(0, [open]),
    operation(2, [refresh('t0', 't1')]),
    operation(4, [refresh('t1', 't0')]),
  ],
  'a current token is unknown': [
    operation(0, [open]),
    operation(2, [refresh('t0', null)], refused('invalid_token')),
  ],
  'a refresh works with the token from before a proof': [
    operation(0, [open]),
    operation(2, [prove('t1')]),
    operation(4, [refresh('t0', 't2')]),
  ],
  'a theft was found, and the session goes on': [
    operation(0, [open]),
    operation(2, [refresh('t0', 't1')]),
    operation(4, [refresh('t0', null)], refused('refresh_reuse')),
    operation(6, [use]),
  ],
  'an acknowledged event is not stored': [operation(0, [send('a', true)]), operation(9, [stored()])],
  'an event is stored twice': [operation(0, [send('a', true)]), operation(9, [stored('a', 'a')])],
  'an event is new twice': [operation(0, [send('a', true)]), operation(2, [send('a', true)])],
  'an event is a duplicate of nothing': [operation(0, [send('a', false)])],
  'an event is stored with another content': [operation(0, [send('a', true)]), operation(9, [stored('b')])],
  'a refused event is stored': [
    operation(0, [send('a')], refused('invalid_signature')),
    operation(9, [stored('a')]),
  ],
  'an event conflicts with nothing': [operation(0, [send('a', null, true)], refused('event_id_conflict'))],
  'a lost batch is stored in part': [
    operation(0, BATCH, LOST),
    operation(9, [stored('a'), { ...event, act: 'read', id: 'f', contents: [] }]),
  ],
  'a conflict is of events that were not sent': [
    operation(0, [send('a')]),
    operation(2, [send('b')], refused('event_id_conflict')),
  ],
  'two secrets have one version': [
    operation(0, [regenerate(1, 'x')], { end: 9 }),
    operation(1, [regenerate(1, 'y')], { end: 9 }),
  ],
  'a version is left out': [operation(0, [regenerate(1, 'x')]), operation(2, [regenerate(3, 'y')])],
  'two replace the same version': [
    operation(0, [regenerate(1, 'x')]),
    operation(2, [regenerate(2, 'y', 1)], { end: 9 }),
    operation(3, [regenerate(3, 'z', 1)], { end: 9 }),
  ],
  'a version conflicts with itself': [
    operation(0, [regenerate(1, 'x')]),
    operation(2, [regenerate(null, null, 1)], refused('version_conflict')),
  ],
  'a signature holds with the old secret': [
    operation(0, [regenerate(1, 'x')]),
    operation(2, [regenerate(2, 'y')]),
    operation(4, [sign('x')]),
  ],
  'a signature with the current secret is refused': [
    operation(0, [regenerate(1, 'x')]),
    operation(2, [sign('x')], refused('invalid_signature')),
  ],
  'a signature holds with the old secret for a conflict': [
    operation(0, [regenerate(1, 'x'), send('a')]),
    operation(2, [regenerate(2, 'y')]),
    operation(4, [sign('x'), send('b', null, true)], refused('event_id_conflict')),
  ],
  'the status shows an earlier version': [
    operation(0, [regenerate(1, 'x')]),
    operation(2, [{ ...secret, act: 'status', version: null }]),
  ],
  'a token works twice': [
    operation(0, [token('consume')], { end: 9 }),
    operation(1, [token('consume')], { end: 9 }),
  ],
  'a token that was never used is refused': [operation(0, [token('consume')], refused('invalid_request'))],
  'a withdrawn token works': [operation(0, [token('void')]), operation(2, [token('consume')])],
  'a used token is shown': [operation(0, [token('consume')]), operation(2, [token('preview')])],
  'a withdrawal says that a token that is live is not there': [
    operation(0, [token('void')], refused('not_found')),
    operation(2, [token('consume')]),
  ],
  'a client is refused for what it did not do': [operation(0, [], refused('permission_denied'))],
  'a client gets the answer to another': [operation(0, [], { asked: 'ada', answered: 'bob' })],
  'a fault is answered with 500': [operation(0, [], { ...LOST, status: 500 })],
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
  'a cookie works after the logout': [
    operation(0, [openByCookie]),
    operation(2, [logout]),
    operation(4, [useBy('c0')]),
  ],
  'the newest cookie is unknown': [
    operation(0, [openByCookie]),
    operation(2, [renew('c0', 'c1')]),
    operation(4, [useBy('c1')], refused('invalid_token')),
  ],
}

describe('the checker of the fault test rejects a history in which', () => {
  test.each(Object.entries(ILLEGAL))('%s', (_, history) => {
    expect(check(history, latest)).toHaveLength(1)
    // Whatever else is there, before and beside it.
    const beside = [...history, operation(1, [{ kind: 'token', id: 'other', act: 'consume' }])]
    expect(check(beside.toReversed(), latest)).toHaveLength(1)
  })
})

const LEGAL: Planted = {
  'a lost logout happens late': [
    operation(0, [open]),
    operation(2, [logout], LOST),
    operation(4, [use]),
    operation(6, [use], refused('session_ended')),
  ],
  'a use overlaps the logout': [
    operation(0, [open]),
    operation(2, [logout], { end: 6 }),
    operation(3, [use], { end: 9 }),
  ],
  'fifty that overlap get one successor': [
    operation(0, [open]),
    ...Array.from({ length: 50 }, (_, n) => operation(2 + n / 100, [refresh('t0', 't1')], { end: 9 })),
  ],
  'a retry gets what was lost': [
    operation(0, [open]),
    operation(2, [refresh('t0', null, 'k')], LOST),
    operation(4, [refresh('t0', null, 'k')], LOST),
    operation(6, [refresh('t0', 't1', 'k')]),
    operation(8, [refresh('t1', 't2', 'l')]),
  ],
  'a proof is lost and tried again, and the token from before is theft': [
    operation(0, [open]),
    operation(2, [prove(null, 'k')], LOST),
    operation(4, [prove('t1', 'k')]),
    operation(6, [refresh('t0', null)], refused('refresh_reuse')),
    operation(8, [use], refused('session_ended')),
  ],
  'a lost event is a duplicate later': [
    operation(0, [send('a')], LOST),
    operation(2, [send('a', false)]),
    operation(9, [stored('a')]),
  ],
  'a lost event is not stored': [operation(0, [send('a')], LOST), operation(9, [stored()])],
  'lost secrets have versions of their own': [
    ...Array.from({ length: 12 }, (_, n) => operation(n, [regenerate(null, null)], LOST)),
    operation(20, [regenerate(6, 'x')]),
    operation(22, [sign('x')]),
    operation(24, [sign('x')], refused('invalid_signature')),
    operation(26, [{ ...secret, act: 'status', version: 9 }]),
  ],
  'a lost token is used': [
    operation(0, [token('consume')], LOST),
    operation(2, [token('consume')], refused('invalid_request')),
  ],
  'a cookie is replaced in the dark': [
    operation(0, [openByCookie]),
    operation(2, [renew('c0', null)], LOST),
    operation(4, [useBy('c0')]),
    operation(6, [useBy('c0')], refused('invalid_token')),
    operation(8, [renew('c0', null)], refused('session_ended')),
  ],
}

describe('the checker of the fault test accepts a history in which', () => {
  test.each(Object.entries(LEGAL))('%s', (_, history) => expect(check(history, latest)).toEqual([]))

  test('a service does one thing at a time and loses answers: a thousand of them', () => {
    let lost = 0
    const kinds = new Set<string>()
    for (let seed = 0; seed < 1_000; seed += 1) {
      const history = legalHistory(seed)
      expect([seed, check(history, latest)]).toEqual([seed, []])
      lost += history.filter(({ outcome }) => outcome === 'unknown').length
      for (const { outcome, parts } of history)
        for (const { kind, act } of parts) kinds.add(`${kind} ${act} ${outcome}`)
    }
    expect(lost).toBeGreaterThan(4_000)
    // All that can be planted occurs in legal ones too.
    expect(kinds.size).toBeGreaterThan(30)
  })
})

test('the checker of the fault test rejects a batch of which a part is stored, also if it was sent twice', () => {
  const history = [
    ...[0, 2].map((begin) => operation(begin, BATCH, LOST)),
    operation(9, [stored('a'), { ...event, act: 'read', id: 'f', contents: [] }]),
  ]
  expect(check(history, latest).map(({ what }) => what)).toEqual(Array(2).fill('a batch was stored in part'))
})

test('the checker of the fault test rejects a feed that gives what was sent later before what was acknowledged', () => {
  const of = (id: string): Part => ({
    kind: 'event',
    id,
    act: 'send',
    content: 'a',
    isNew: true,
    isNamed: false,
  })
  const history = [operation(0, [of('one')]), operation(2, [of('two')]), operation(2, [of('three')])]
  expect(findDisordered({ history, feed: ['one', 'three', 'two'] })).toEqual([])
  expect(findDisordered({ history, feed: ['two', 'three', 'one'] })).toHaveLength(1)
  expect(findDisordered({ history, feed: ['one', 'another', 'two'] })).toHaveLength(1)
})

test('the checker of the fault test rejects a feed that takes back, or moves, what it has given', () => {
  expect(findTakenBack({ feed: ['one', 'two'], feedAtLast: ['one', 'two', 'three'] })).toEqual([])
  expect(findTakenBack({ feed: ['one', 'two'], feedAtLast: ['two'] })).toHaveLength(1)
  expect(findTakenBack({ feed: ['one', 'two'], feedAtLast: ['two', 'one'] })).toHaveLength(1)
})

test('the same seed gives the same history, and another one another', () => {
  expect(legalHistory(7)).toEqual(legalHistory(7))
  expect(legalHistory(7)).not.toEqual(legalHistory(8))
})
