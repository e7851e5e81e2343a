import { AWAY, type Observed, type Operation, type Part, toText, type Violation } from './history.ts'
import { eventRule, secretRule, tokenRule } from './rules.ts'
import { findUnexplained, type Latest, type Rule, type Step, UndecidedError } from './search.ts'
import { findSharedLater, type SessionPart, type SessionsPart, sessionRule } from './session.ts'

/** The codes that these clients may get. Any other would blame a client for a fault. */
const REFUSALS = new Set([
  'session_ended',
  'refresh_reuse',
  'refresh_token_reused',
  'invalid_token',
  'invalid_signature',
  'invalid_request',
  'event_id_conflict',
  'version_conflict',
  'not_found',
  'quota_reached',
])

/**
 * Judges each subject separately: an order of everything would contain an order of each. Returns nothing if all is explained.
 * An operation without a response can happen until `latestOf`.
 */
export function check({ history: given, feed, feedAtLast }: Observed, latestOf: Latest): Violation[] {
  const history = given.map(withSessions(given))
  const judgeAll = <Kind extends Part['kind'], State>(kind: Kind, rule: Rule<State, PartOf<Kind>>) =>
    subjectsOf(history, kind).flatMap((subject) => judge(subject, kind, rule, latestOf))
  const shared = subjectsOf(history, 'session').flatMap(([id, steps]) => {
    const found = findSharedLater<Judged<SessionPart>>(steps)
    return found ? [{ what: `session ${id}: a used token worked again`, operations: [found.operation] }] : []
  })
  const moved = feed.find((id, index) => id !== feedAtLast[index])
  return [
    ...judgeAll('session', sessionRule),
    ...judgeAll('event', eventRule),
    ...judgeAll('secret', secretRule),
    ...judgeAll('token', tokenRule),
    ...shared,
    ...findDivided(history).map((one) => ({ what: 'a batch was stored partly', operations: [one] })),
    ...(moved ? [{ what: `event ${moved}: was returned, then disappeared or moved`, operations: [] }] : []),
    ...history.flatMap((one) => faultsOf(one).map((what) => ({ what, operations: [one] }))),
  ]
}

function faultsOf({ what, status, outcome, code, isOther }: Operation): string[] {
  return [
    ...(isOther ? [`${what} returned the response to a different request`] : []),
    ...(status >= 500 && !AWAY.includes(status) ? [`${what} returned ${status}`] : []),
    ...(outcome === 'refused' && !REFUSALS.has(code) ? [`${what} was refused: ${code}`] : []),
  ]
}

/** A batch is stored completely or not at all. No other batch has the same events. */
function findDivided(history: readonly Operation[]): Operation[] {
  const eventsOf = ({ parts }: Operation) => parts.filter((part) => part.kind === 'event')
  const stored = new Set(
    history
      .flatMap(eventsOf)
      .flatMap((part) => (part.act === 'read' && part.contents.length > 0 ? [part.id] : [])),
  )
  return history.filter((operation) => {
    const sent = eventsOf(operation).filter(({ act }) => act === 'send')
    const count = sent.filter(({ id }) => stored.has(id)).length
    return count > 0 && count < sent.length
  })
}

/** Replaces the end of all sessions of a member with the end of each session. */
function withSessions(history: readonly Operation[]): (operation: Operation) => Operation {
  const opened = history
    .flatMap(({ parts }) => parts)
    .flatMap((part) => (part.kind === 'session' && part.act === 'open' ? [part] : []))
  const byOwner = Map.groupBy(opened, ({ owner }) => owner)
  const endsOf = (part: SessionsPart): SessionPart[] =>
    (byOwner.get(part.id) ?? [])
      .filter(({ id }) => id !== part.kept)
      .map(({ id }) => ({ kind: 'session', id, act: 'end', isOwn: false }))
  return (operation) => ({
    ...operation,
    parts: operation.parts.flatMap((part) => (part.kind === 'sessions' ? endsOf(part) : [part])),
  })
}

type PartOf<Kind extends Part['kind']> = Extract<Part, { kind: Kind }>

interface Judged<P> extends Step<P> {
  operation: Operation
}

function subjectsOf<Kind extends Part['kind']>(history: readonly Operation[], kind: Kind) {
  const isOfKind = (part: Part): part is PartOf<Kind> => part.kind === kind
  const steps = history.flatMap((operation): Judged<PartOf<Kind>>[] => {
    const { begin, end, outcome, code, parts } = operation
    return parts.filter(isOfKind).map((part) => ({ begin, end, outcome, code, part, operation }))
  })
  return [...Map.groupBy(steps, ({ part }) => part.id)]
}

function judge<State, P>(
  [id, steps]: [string, Judged<P>[]],
  kind: string,
  rule: Rule<State, P>,
  latestOf: Latest,
): Violation[] {
  const operations = steps.map(({ operation }) => operation)
  try {
    const found = findUnexplained(rule, steps, latestOf)
    return found ? [{ what: `${kind} ${id}: ${toText(found.operation)}`, operations }] : []
  } catch (error) {
    if (!(error instanceof UndecidedError)) throw error
    return [{ what: `${kind} ${id}: ${error.message}`, operations }]
  }
}
