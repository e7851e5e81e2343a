import { describe, expect, test } from 'vitest'
import { check } from '../../scripts/fault-test/checker/check.ts'
import type { Operation, Part } from '../../scripts/fault-test/checker/history.ts'

/** The checker of `npm run fault-test` finds each kind of violation, and accepts what is legal. */

/** Until so long after its end, an operation without an answer can happen. */
const LATE_MS = 160
const judge = (history: Operation[], feed: string[] = [], feedAtLast = feed) =>
  check({ history, feed, feedAtLast }, ({ end }) => end + LATE_MS).map(({ what }) => what)

/** From `begin` on for one millisecond, or for as long as it is given. */
function operation(begin: number, parts: Part[], seen: Partial<Operation> = {}): Operation {
  const usual = { client: 'one', what: 'any', outcome: 'ok', code: '', status: 200 } as const
  return { ...usual, begin, end: begin + 1, parts, ...seen }
}

const refused = (code: string) => ({ outcome: 'refused', code }) as const
const LOST = { outcome: 'unknown', status: 503 } as const

const session = { kind: 'session', id: 's' } as const
const open: Part = { ...session, act: 'open', owner: 'm', token: 't0' }
const use: Part = { ...session, act: 'use' }
const logout: Part = { ...session, act: 'end', isOwn: true }
const refresh = (token: string, successor: string | null, key: string | null = null): Part => ({
  ...session,
  ...{ act: 'refresh', token, successor, key },
})
const opened = operation(0, [open])

const send = (id: string, content: string, isNew: boolean | null = null, isNamed = false): Part => ({
  ...{ kind: 'event', id, act: 'send', content, isNew, isNamed },
})
const stored = (id: string, ...contents: string[]): Part => ({ kind: 'event', id, act: 'read', contents })
const BATCH = [send('e', 'a'), send('f', 'a')]

const secret = { kind: 'secret', id: 'c' } as const
const regenerate = (version: number | null, made: string | null, expected: number | null = null): Part => ({
  ...secret,
  ...{ act: 'regenerate', expected, version, secret: made },
})
const sign = (by: string): Part => ({ ...secret, act: 'sign', secret: by })
const token = (act: 'consume' | 'preview' | 'revoke'): Part => ({ kind: 'token', id: 'invitation', act })

const ILLEGAL: Record<string, Operation[]> = {
  'a session is used after its logout': [opened, operation(2, [logout]), operation(4, [use])],
  'a session is used after all sessions of its member ended': [
    opened,
    operation(2, [{ kind: 'sessions', id: 'm', act: 'end', kept: 'other' }]),
    operation(4, [use]),
  ],
  'a session ends without a cause': [opened, operation(2, [use], refused('session_ended'))],
  'a lost logout happens far too late': [
    opened,
    operation(2, [logout], LOST),
    operation(4 + LATE_MS, [use]),
    operation(6 + LATE_MS, [use], refused('session_ended')),
  ],
  'a logout of an active session is refused': [opened, operation(2, [logout], refused('invalid_token'))],
  'a session is ended by two logouts': [opened, operation(2, [logout]), operation(4, [logout])],
  'a current token is unknown': [opened, operation(2, [refresh('t0', null)], refused('invalid_token'))],
  'an earlier token is the current one again': [
    opened,
    operation(2, [refresh('t0', 't1')]),
    operation(4, [refresh('t1', 't0')]),
  ],
  'two refreshes at the same time get different successors': [
    opened,
    operation(2, [refresh('t0', 't1')], { end: 9 }),
    operation(3, [refresh('t0', 't2')], { end: 9 }),
  ],
  "a client's own retry is called theft": [
    opened,
    operation(2, [refresh('t0', null, 'k')], LOST),
    operation(4, [refresh('t0', null, 'k')], refused('refresh_reuse')),
  ],
  "a client's own retry is refused though its successor is unused": [
    opened,
    operation(2, [refresh('t0', null, 'k')], LOST),
    operation(4, [refresh('t0', null, 'k')], refused('refresh_token_reused')),
  ],
  'a stolen token is not called theft': [
    opened,
    operation(2, [refresh('t0', 't1', 'k')]),
    operation(4, [refresh('t1', 't2', 'l')]),
    operation(6, [refresh('t0', null)], refused('refresh_token_reused')),
  ],
  'a token works again later without a key': [
    opened,
    operation(2, [refresh('t0', 't1')]),
    operation(4, [refresh('t0', 't1')]),
  ],
  'a different key gets the successor': [
    opened,
    operation(2, [refresh('t0', 't1', 'k')]),
    operation(4, [refresh('t0', 't1', 'l')]),
  ],
  'a retry works after its successor was used': [
    opened,
    operation(2, [refresh('t0', 't1', 'k')]),
    operation(4, [refresh('t1', 't2', 'l')]),
    operation(6, [refresh('t0', 't1', 'k')]),
  ],
  'an acknowledged rotation is undone': [
    opened,
    operation(2, [refresh('t0', 't1')]),
    operation(4, [refresh('t1', null)], refused('refresh_token_reused')),
  ],
  'a session continues after a theft was found': [
    opened,
    operation(2, [refresh('t0', 't1')]),
    operation(4, [refresh('t0', null)], refused('refresh_reuse')),
    operation(6, [use]),
  ],
  'an acknowledged event is not stored': [operation(0, [send('e', 'a', true)]), operation(9, [stored('e')])],
  'an event is stored twice': [operation(0, [send('e', 'a', true)]), operation(9, [stored('e', 'a', 'a')])],
  'an event is new twice': [operation(0, [send('e', 'a', true)]), operation(2, [send('e', 'a', true)])],
  'an event is a duplicate of nothing': [operation(0, [send('e', 'a', false)])],
  'a batch with new content of a stored event is accepted': [
    operation(0, [send('e', 'a', true)]),
    operation(2, [send('e', 'b')]),
  ],
  'an event conflicts with nothing': [
    operation(0, [send('e', 'a', null, true)], refused('event_id_conflict')),
  ],
  'a refused event is stored': [
    operation(0, [send('e', 'a')], refused('invalid_signature')),
    operation(9, [stored('e', 'a')]),
  ],
  'a lost batch is stored in part': [
    operation(0, BATCH, LOST),
    operation(9, [stored('e', 'a'), stored('f')]),
  ],
  'a conflict names no event': [
    operation(0, [send('e', 'a')]),
    operation(2, [send('e', 'b')], refused('event_id_conflict')),
  ],
  'two secrets have one version': [
    operation(0, [regenerate(1, 'x')], { end: 9 }),
    operation(1, [regenerate(1, 'y')], { end: 9 }),
  ],
  'two requests replace the same version': [
    operation(0, [regenerate(1, 'x')]),
    operation(2, [regenerate(2, 'y', 1)], { end: 9 }),
    operation(3, [regenerate(3, 'z', 1)], { end: 9 }),
  ],
  'a version is left out': [operation(0, [regenerate(1, 'x')]), operation(2, [regenerate(3, 'y')])],
  'a version conflicts with itself': [
    operation(0, [regenerate(1, 'x')]),
    operation(2, [regenerate(null, null, 1)], refused('version_conflict')),
  ],
  'a signature by the previous secret is accepted': [
    operation(0, [regenerate(1, 'x')]),
    operation(2, [regenerate(2, 'y')]),
    operation(4, [sign('x')]),
  ],
  'a signature by the current secret is refused': [
    operation(0, [regenerate(1, 'x')]),
    operation(2, [sign('x')], refused('invalid_signature')),
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
  'a revoked token works': [operation(0, [token('revoke')]), operation(2, [token('consume')])],
  'a used token is shown': [operation(0, [token('consume')]), operation(2, [token('preview')])],
  'a client is blamed for a fault': [operation(0, [], refused('permission_denied'))],
  'a client gets the answer to a different request': [operation(0, [], { asked: 'ada', answered: 'bob' })],
  'a fault is answered with 500': [operation(0, [], { ...LOST, status: 500 })],
}

describe('the checker rejects a history in which', () => {
  test.each(Object.entries(ILLEGAL))('%s', (_, history) => {
    expect(judge(history)).toHaveLength(1)
    // In any order, and beside something legal.
    const beside = [...history, operation(1, [{ kind: 'token', id: 'other', act: 'consume' }])]
    expect(judge(beside.toReversed())).toHaveLength(1)
  })
})

const LEGAL: Record<string, Operation[]> = {
  'a lost logout happens late': [
    opened,
    operation(2, [logout], LOST),
    operation(4, [use]),
    operation(6, [use], refused('session_ended')),
  ],
  'an older session ends, and its logout is refused': [
    operation(-2, [{ kind: 'sessions', id: 'm', act: 'end', kept: null }]),
    opened,
    operation(2, [logout]),
    operation(4, [logout], refused('session_ended')),
  ],
  'a use overlaps the logout': [opened, operation(2, [logout], { end: 6 }), operation(3, [use], { end: 9 })],
  'fifty refreshes at the same time get one successor': [
    opened,
    ...Array.from({ length: 50 }, (_, n) => operation(2 + n / 100, [refresh('t0', 't1')], { end: 9 })),
  ],
  'a retry gets what was lost': [
    opened,
    operation(2, [refresh('t0', null, 'k')], LOST),
    operation(4, [refresh('t0', null, 'k')], LOST),
    operation(6, [refresh('t0', 't1', 'k')]),
    operation(8, [refresh('t1', 't2', 'l')]),
  ],
  'a spent token with a different key is theft': [
    opened,
    operation(2, [refresh('t0', 't1', 'k')]),
    operation(4, [refresh('t0', null, 'l')], refused('refresh_reuse')),
  ],
  'a late retry with its own key is harmless': [
    opened,
    operation(2, [refresh('t0', 't1', 'k')]),
    operation(4, [refresh('t1', 't2', 'l')]),
    operation(6, [refresh('t0', null, 'k')], refused('refresh_token_reused')),
    operation(8, [use]),
  ],
  'an event conflicts with what is stored': [
    operation(0, [send('e', 'a', true)]),
    operation(2, [send('e', 'b', null, true)], refused('event_id_conflict')),
  ],
  'a lost event is a duplicate later': [
    operation(0, [send('e', 'a')], LOST),
    operation(2, [send('e', 'a', false)]),
    operation(9, [stored('e', 'a')]),
  ],
  'a lost event is not stored': [operation(0, [send('e', 'a')], LOST), operation(9, [stored('e')])],
  'an outdated version conflicts': [
    operation(0, [regenerate(1, 'x')]),
    operation(2, [regenerate(null, null, 0)], refused('version_conflict')),
  ],
  'lost secrets have their own versions': [
    ...Array.from({ length: 12 }, (_, n) => operation(n, [regenerate(null, null)], LOST)),
    operation(20, [regenerate(6, 'x')]),
    operation(22, [sign('x')]),
    operation(24, [sign('x')], refused('invalid_signature')),
    operation(26, [{ ...secret, act: 'status', version: 9 }]),
  ],
  'a token works after a lost preview': [
    operation(0, [token('preview')], LOST),
    operation(2, [token('consume')]),
  ],
  'a lost token is used': [
    operation(0, [token('consume')], LOST),
    operation(2, [token('consume')], refused('invalid_request')),
  ],
}

describe('the checker accepts a history in which', () => {
  test.each(Object.entries(LEGAL))('%s', (_, history) => expect(judge(history)).toEqual([]))
})

describe('the checker rejects a feed', () => {
  const history = ['one', 'two', 'three'].map((id, n) => operation(Math.min(2 * n, 2), [send(id, 'a', true)]))

  test.each([
    ['that returns an event before one that was acknowledged earlier', ['two', 'three', 'one'], undefined],
    ['that returns an event that was never sent', ['one', 'fourth', 'two'], undefined],
    ['that loses what it has returned', ['one', 'two'], ['two']],
    ['that moves what it has returned', ['one', 'two'], ['two', 'one']],
  ])('%s', (_, feed, feedAtLast) => expect(judge(history, feed, feedAtLast)).toHaveLength(1))

  test('and not one that returns events of the same time in any order', () => {
    expect(judge(history, ['one', 'three', 'two'])).toEqual([])
  })
})
