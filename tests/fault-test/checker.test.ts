import { describe, expect, test } from 'vitest'
import { check } from '../../scripts/fault-test/checker/check.ts'
import type { Operation, Part } from '../../scripts/fault-test/checker/history.ts'

/** The checker of `npm run fault-test` must find each kind of violation, and accept legal histories. */

/** How long after its end an operation without a response can still take effect. */
const LATE_MS = 160
const judge = (history: Operation[], feed: string[] = [], feedAtLast: string[] = []) =>
  check({ history, feed, feedAtLast }, ({ end }) => end + LATE_MS).map(({ what }) => what)

/** Starts at `begin` and lasts one millisecond, unless `seen` has a different end. */
function operation(begin: number, parts: Part[], seen: Partial<Operation> = {}): Operation {
  const usual = { client: 'one', what: 'any', outcome: 'ok', code: '', status: 200 } as const
  return { ...usual, begin, end: begin + 1, parts, ...seen }
}

/** Operations in sequence. Each is a part, or a part and the client's observations. */
type Step = Part | [Part | Part[], Partial<Operation>]
const inTurn = (...steps: Step[]) =>
  steps.map((step, n) =>
    Array.isArray(step) ? operation(2 * n, [step[0]].flat(), step[1]) : operation(2 * n, [step]),
  )
const refused = (part: Part | Part[], code: string): Step => [part, { outcome: 'refused', code }]
const LOST = { outcome: 'unknown', status: 503 } as const
const lost = (part: Part | Part[]): Step => [part, LOST]
/** Two concurrent operations, after `first`. */
const together = (first: Part[], one: Part, other: Part) => [
  ...inTurn(...first),
  operation(11, [one], { end: 19 }),
  operation(12, [other], { end: 19 }),
]

const session = { kind: 'session', id: 's' } as const
const open: Part = { ...session, act: 'open', owner: 'm', token: 't0' }
const use: Part = { ...session, act: 'use' }
const logout: Part = { ...session, act: 'end', isOwn: true }
const logoutOfAll = (kept: string): Part => ({ kind: 'sessions', id: 'm', act: 'end', kept })
const refresh = (token: string, successor: string | null, key: string | null = null): Part => ({
  ...session,
  ...{ act: 'refresh', token, successor, key },
})
const WITH_KEY = [open, refresh('t0', 't1', 'k')]
const ROTATED = [open, refresh('t0', 't1')]
const ROTATED_TWICE = [...WITH_KEY, refresh('t1', 't2', 'l')]

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
const token = (act: 'consume' | 'revoke'): Part => ({ kind: 'token', id: 'invitation', act })

const ILLEGAL: Record<string, Operation[]> = {
  'a session is used after its logout': inTurn(open, logout, use),
  'a session is used after all sessions of its member ended': inTurn(open, logoutOfAll('other'), use),
  'a session ends without a cause': inTurn(open, refused(use, 'session_ended')),
  'a lost logout happens far too late': [
    ...inTurn(open, lost(logout)),
    operation(4 + LATE_MS, [use]),
    operation(6 + LATE_MS, [use], { outcome: 'refused', code: 'session_ended' }),
  ],
  'a logout of an active session is refused': inTurn(open, refused(logout, 'invalid_token')),
  'a session is ended by two logouts': inTurn(open, logout, logout),
  'a current token is unknown': inTurn(open, refused(refresh('t0', null), 'invalid_token')),
  'an earlier token is the current one again': inTurn(open, refresh('t0', 't1'), refresh('t1', 't0')),
  'two refreshes at the same time get different successors': together(
    [open],
    refresh('t0', 't1'),
    refresh('t0', 't2'),
  ),
  "a client's own retry is called theft": inTurn(
    open,
    lost(refresh('t0', null, 'k')),
    refused(refresh('t0', null, 'k'), 'refresh_reuse'),
  ),
  "a client's own retry is refused though its successor is unused": inTurn(
    open,
    lost(refresh('t0', null, 'k')),
    refused(refresh('t0', null, 'k'), 'refresh_token_reused'),
  ),
  'a stolen token is not called theft': inTurn(
    ...ROTATED_TWICE,
    refused(refresh('t0', null), 'refresh_token_reused'),
  ),
  'a token works again later without a key': inTurn(open, refresh('t0', 't1'), refresh('t0', 't1')),
  'a different key gets the successor': inTurn(open, refresh('t0', 't1', 'k'), refresh('t0', 't1', 'l')),
  'a retry works after its successor was used': inTurn(...ROTATED_TWICE, refresh('t0', 't1', 'k')),
  'an acknowledged rotation is undone': inTurn(
    ...ROTATED,
    refused(refresh('t1', null), 'refresh_token_reused'),
  ),
  'a session continues after a theft was found': inTurn(
    ...ROTATED,
    refused(refresh('t0', null), 'refresh_reuse'),
    use,
  ),
  'an acknowledged event is not stored': inTurn(send('e', 'a', true), stored('e')),
  'an event is stored twice': inTurn(send('e', 'a', true), stored('e', 'a', 'a')),
  'an event that was never sent is stored': inTurn(stored('e', 'a')),
  'an event is new twice': inTurn(send('e', 'a', true), send('e', 'a', true)),
  'an event is a duplicate of nothing': inTurn(send('e', 'a', false)),
  'a batch with new content of a stored event is accepted': inTurn(send('e', 'a', true), send('e', 'b')),
  'an event conflicts with nothing': inTurn(refused(send('e', 'a', null, true), 'event_id_conflict')),
  'a refused event is stored': inTurn(refused(send('e', 'a'), 'invalid_signature'), stored('e', 'a')),
  'a lost batch is stored in part': inTurn(lost(BATCH), [[stored('e', 'a'), stored('f')], {}]),
  'two secrets have one version': together([], regenerate(1, 'x'), regenerate(1, 'y')),
  'two requests replace the same version': together(
    [regenerate(1, 'x')],
    regenerate(2, 'y', 1),
    regenerate(3, 'z', 1),
  ),
  'a version is left out': inTurn(regenerate(1, 'x'), regenerate(3, 'y')),
  'a version conflicts with itself': inTurn(
    regenerate(1, 'x'),
    refused(regenerate(null, null, 1), 'version_conflict'),
  ),
  'a signature by the previous secret is accepted': inTurn(regenerate(1, 'x'), regenerate(2, 'y'), sign('x')),
  'a signature by the current secret is refused': inTurn(
    regenerate(1, 'x'),
    refused(sign('x'), 'invalid_signature'),
  ),
  'a token works twice': together([], token('consume'), token('consume')),
  'a token that was never used is refused': inTurn(refused(token('consume'), 'invalid_request')),
  'a revoked token works': inTurn(token('revoke'), token('consume')),
  'a client is blamed for a fault': inTurn(refused([], 'permission_denied')),
  'a client gets the response to a different request': inTurn([[], { isOther: true }]),
  'a fault returns 500': inTurn([[], { ...LOST, status: 500 }]),
}

describe('illegal histories', () => {
  test.each(Object.entries(ILLEGAL))('the checker rejects: %s', (_, history) => {
    expect(judge(history)).toHaveLength(1)
    // In any order, and with a legal operation.
    const beside = [...history, operation(1, [{ kind: 'token', id: 'other', act: 'consume' }])]
    expect(judge(beside.toReversed())).toHaveLength(1)
  })
})

const LEGAL: Record<string, Operation[]> = {
  'a lost logout happens late': inTurn(open, lost(logout), use, refused(use, 'session_ended')),
  'an older session ends, and its logout is refused': inTurn(
    ...[logoutOfAll('other'), open, logout],
    refused(logout, 'session_ended'),
  ),
  'a use overlaps the logout': together([open], logout, use),
  'fifty refreshes at the same time get one successor': [
    ...inTurn(open),
    ...Array.from({ length: 50 }, (_, n) => operation(2 + n / 100, [refresh('t0', 't1')], { end: 9 })),
  ],
  'a retry gets what was lost': inTurn(
    open,
    lost(refresh('t0', null, 'k')),
    lost(refresh('t0', null, 'k')),
    refresh('t0', 't1', 'k'),
    refresh('t1', 't2', 'l'),
  ),
  'a used token with a different key is theft': inTurn(
    ...[open, refresh('t0', 't1', 'k')],
    refused(refresh('t0', null, 'l'), 'refresh_reuse'),
  ),
  'a late retry with its own key is harmless': inTurn(
    ...ROTATED_TWICE,
    refused(refresh('t0', null, 'k'), 'refresh_token_reused'),
    use,
  ),
  'an event conflicts with the stored one': inTurn(
    send('e', 'a', true),
    refused(send('e', 'b', null, true), 'event_id_conflict'),
  ),
  'a lost event is a duplicate later': inTurn(lost(send('e', 'a')), send('e', 'a', false), stored('e', 'a')),
  'a lost event is not stored': inTurn(lost(send('e', 'a')), stored('e')),
  'an outdated version conflicts': inTurn(
    regenerate(1, 'x'),
    refused(regenerate(null, null, 0), 'version_conflict'),
  ),
  'lost secrets have their own versions': inTurn(
    ...Array.from({ length: 12 }, (): Step => lost(regenerate(null, null))),
    regenerate(6, 'x'),
    sign('x'),
    refused(sign('x'), 'invalid_signature'),
  ),
  'a lost token is used': inTurn(lost(token('consume')), refused(token('consume'), 'invalid_request')),
}

describe('legal histories', () => {
  test.each(Object.entries(LEGAL))('the checker accepts: %s', (_, history) =>
    expect(judge(history)).toEqual([]),
  )
})

describe('feeds', () => {
  test.each([
    ['that loses what it has returned', ['one', 'two'], ['two']],
    ['that moves what it has returned', ['one', 'two'], ['two', 'one']],
  ])('the checker rejects a feed %s', (_, feed, feedAtLast) =>
    expect(judge([], feed, feedAtLast)).toHaveLength(1),
  )
})
