import { findDivided } from './batches.ts'
import { eventRule } from './event.ts'
import type { Operation, Part } from './history.ts'
import { findUnexplained, type Latest, type Rule, type Step, UndecidedError } from './search.ts'
import { secretRule } from './secret.ts'
import { AWAY } from './seen.ts'
import { findSharedLater, type SessionPart, type SessionsPart, sessionRule } from './session.ts'
import { tokenRule } from './token.ts'

/** What no legal order explains, with the history of its subject. */
export interface Violation {
  what: string
  operations: Operation[]
}

interface Judged<P> extends Step<P> {
  operation: Operation
}

/** What these clients can be refused for. Another reason says that the service takes a fault for the client's mistake. */
const REFUSALS = new Set([
  'session_ended',
  'refresh_reuse',
  'refresh_token_reused',
  'invalid_token',
  'invalid_credentials',
  'invalid_signature',
  'invalid_request',
  'event_id_conflict',
  'version_conflict',
  'not_found',
  'quota_reached',
])

/**
 * Judges each subject by itself: an order of all would give one of each. Empty: all that clients saw is explained. What was not
 * answered can have happened until `latestOf` says.
 */
export function check(operations: readonly Operation[], latestOf: Latest): Violation[] {
  const history = operations.map(withSessions(operations))
  const judgeAll = <Kind extends Part['kind'], State>(
    kind: Kind,
    rule: Rule<State, Extract<Part, { kind: Kind }>>,
  ) => judge(history, kind, rule, latestOf)
  return [
    ...judgeAll('session', sessionRule),
    ...judgeAll('event', eventRule),
    ...judgeAll('secret', secretRule),
    ...judgeAll('token', tokenRule),
    ...sharedLater(history),
    ...findDivided(history).map((one) => ({ what: 'a batch was stored in part', operations: [one] })),
    ...history
      .filter(isUnnamed)
      .map((one) => ({ what: 'a conflict is of no event of it', operations: [one] })),
    ...history.filter(isAnothers).map((one) => ({ what: 'an answer is that to another', operations: [one] })),
    ...history
      .filter(({ status }) => status >= 500 && !AWAY.includes(status))
      .map((one) => ({ what: `${one.what} was answered ${one.status}`, operations: [one] })),
    ...history
      .filter(({ outcome, code }) => outcome === 'refused' && !REFUSALS.has(code))
      .map((one) => ({ what: `${one.what} was refused: ${one.code}`, operations: [one] })),
  ]
}

/** Says of each session of a member what is meant for all of them. */
function withSessions(history: readonly Operation[]): (operation: Operation) => Operation {
  const opened = history.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.kind === 'session' && part.act === 'open' ? [part] : [])),
  )
  const byOwner = Map.groupBy(opened, ({ owner }) => owner)
  const endsOf = (part: SessionsPart): SessionPart[] =>
    (byOwner.get(part.id) ?? [])
      .filter(({ id }) => id !== part.kept)
      .map(({ id }) => ({ kind: 'session', id, act: 'end', isOwn: false }))
  return (operation) => {
    const parts = operation.parts.flatMap((part) => (part.kind === 'sessions' ? endsOf(part) : [part]))
    return { ...operation, parts }
  }
}

function isAnothers({ outcome, asked, answered }: Operation): boolean {
  return outcome === 'ok' && asked !== answered
}

function isUnnamed({ code, parts }: Operation): boolean {
  const isNamed = (part: Part) => part.kind === 'event' && part.act === 'send' && part.isNamed
  return code === 'event_id_conflict' && !parts.some(isNamed)
}

function judge<Kind extends Part['kind'], State>(
  history: readonly Operation[],
  kind: Kind,
  rule: Rule<State, Extract<Part, { kind: Kind }>>,
  latestOf: Latest,
): Violation[] {
  return [...subjectsOf(history, kind)].flatMap(([id, records]) => {
    const operations = records.map(({ operation }) => operation)
    try {
      const found = findUnexplained(rule, records, latestOf)
      return found ? [{ what: `${kind} ${id}: ${toText(found.operation)}`, operations }] : []
    } catch (error) {
      if (!(error instanceof UndecidedError)) throw error
      return [{ what: `${kind} ${id}: ${error.message}`, operations }]
    }
  })
}

function sharedLater(history: readonly Operation[]): Violation[] {
  return [...subjectsOf(history, 'session')].flatMap(([id, records]) => {
    const found = findSharedLater<Judged<SessionPart>>(records)
    if (!found) return []
    return [{ what: `session ${id}: a spent token worked again`, operations: [found.operation] }]
  })
}

function subjectsOf<Kind extends Part['kind']>(history: readonly Operation[], kind: Kind) {
  const isOfKind = (part: Part): part is Extract<Part, { kind: Kind }> => part.kind === kind
  const subjects = new Map<string, Judged<Extract<Part, { kind: Kind }>>[]>()
  for (const operation of history) {
    const { begin, end, outcome, code, parts } = operation
    for (const part of parts.filter(isOfKind)) {
      const records = subjects.get(part.id) ?? []
      records.push({ begin, end, outcome, code, part, operation })
      subjects.set(part.id, records)
    }
  }
  return subjects
}

/** One line, such as `12.034–12.080 s  person-3  POST /auth/refresh: refused session_ended`. */
export function toText({ begin, end, client, what, outcome, code }: Operation): string {
  const [from, to] = [begin, end].map((at) => (at / 1000).toFixed(3))
  return `${from}–${to} s  ${client}  ${what}: ${outcome} ${code}`.trimEnd()
}
