/** Searches for an order of operations, each at one moment between its begin and end, that explains what clients saw. */

/**
 * - ok: acknowledged
 * - refused: rejected without an effect, with a `code`
 * - unknown: one of these, or without a response. It may happen at any time after its begin, or never
 */
export type Outcome = 'ok' | 'refused' | 'unknown'

/** Times in milliseconds of a monotonic clock. */
export interface Seen {
  begin: number
  /** If unknown, when the client stopped waiting. */
  end: number
  outcome: Outcome
  /** Of a problem or a connection error; empty if ok. */
  code: string
}

/** The rules of one subject. States are JSON values. */
export interface Rule<State, Part> {
  initial: State
  /** The states that can follow an operation with this outcome. Empty if it is impossible in this state. */
  next(state: State, part: Part, seen: Seen): State[]
  isRead(part: Part, seen: Seen): boolean
}

export interface Step<Part> extends Seen {
  part: Part
}

/** A possible state, and the operations in progress that have already happened in it. */
interface World<State, S> {
  state: State
  done: ReadonlySet<S>
}

const MOST_WORLDS = 20_000

export type Latest = (seen: Pick<Seen, 'begin' | 'end'>) => number

export class UndecidedError extends Error {}

/**
 * The first operation whose outcome no order explains. Each response keeps only worlds in which its operation has happened
 * (Lowe, "Testing for linearizability"). Unknown operations stay in progress until `latestOf`.
 */
export function findUnexplained<State, Part, S extends Step<Part>>(
  rule: Rule<State, Part>,
  steps: readonly S[],
  latestOf: Latest,
): S | null {
  const pending = new Set<S>()
  let worlds: World<State, S>[] = [{ state: rule.initial, done: new Set() }]
  for (const { step, isEnd } of momentsOf(steps, latestOf)) {
    if (!isEnd) pending.add(step)
    else {
      worlds = worldsWith(step, worlds, pending, rule)
      if (worlds.length === 0) return step
      pending.delete(step)
    }
  }
  return null
}

function momentsOf<S extends Seen>(steps: readonly S[], latestOf: Latest) {
  const begins = steps.map((step) => ({ at: step.begin, step, isEnd: false }))
  const endOf = (step: S) => (step.outcome === 'unknown' ? latestOf(step) : step.end)
  const ends = steps.map((step) => ({ at: endOf(step), step, isEnd: true }))
  const lastAnswer = Math.max(...steps.map(({ end, outcome }) => (outcome === 'unknown' ? 0 : end)))
  const all = [...begins, ...ends.filter(({ at }) => at <= lastAnswer)]
  // An operation that begins when another ends overlaps it.
  return all.toSorted((a, b) => a.at - b.at || Number(a.isEnd) - Number(b.isEnd))
}

/** All worlds in which the step has happened, after any others in progress. If it is unknown, also worlds without it. */
function worldsWith<State, Part, S extends Step<Part>>(
  step: S,
  worlds: World<State, S>[],
  pending: ReadonlySet<S>,
  rule: Rule<State, Part>,
): World<State, S>[] {
  const [isNewHere, isNewThere] = [newcomers<State, S>(pending), newcomers<State, S>(pending)]
  const without = step.outcome === 'unknown' ? worlds.filter(({ done }) => !done.has(step)) : []
  const reached = without.filter(isNewThere)
  // Worlds with the fewest operations come first, because they make others redundant.
  const toExplore = worlds.toSorted((one, other) => one.done.size - other.done.size)
  for (const world of toExplore) {
    if (!isNewHere(world)) continue
    if (toExplore.length > MOST_WORLDS) throw new UndecidedError('too many orders are possible')
    if (world.done.has(step)) {
      const after = { state: world.state, done: new Set([...world.done].filter((one) => one !== step)) }
      if (isNewThere(after)) reached.push(after)
    } else toExplore.push(...followers(world, pending, rule))
  }
  return reached
}

/**
 * Whether a world adds anything to earlier ones. With the same state, a world with fewer unknown operations can become all that
 * the other can, because they need not happen.
 */
function newcomers<State, S extends Seen>(pending: ReadonlySet<S>): (world: World<State, S>) => boolean {
  const known = new Map<string, ReadonlySet<S>[]>()
  return ({ state, done }) => {
    const isSure = [...pending].map((step) => Number(done.has(step) && step.outcome !== 'unknown'))
    const key = `${isSure.join('')} ${JSON.stringify(state)}`
    const alike = known.get(key) ?? []
    if (alike.some((fewer) => [...fewer].every((step) => done.has(step)))) return false
    known.set(key, [...alike, done])
    return true
  }
}

function followers<State, Part, S extends Step<Part>>(
  { state, done }: World<State, S>,
  pending: ReadonlySet<S>,
  { next, isRead }: Rule<State, Part>,
): World<State, S>[] {
  const all: World<State, S>[] = []
  const before = JSON.stringify(state)
  for (const step of firstOfEach<Part, S>([...pending].filter((one) => !done.has(one)))) {
    const states = next(state, step.part, step)
    const follow = (after: State) => ({ state: after, done: new Set([...done, step]) })
    if (step.outcome === 'unknown') {
      // Without a change, it need not happen.
      all.push(...states.filter((after) => JSON.stringify(after) !== before).map(follow))
    } else if (isRead(step.part, step) && states.length > 0) {
      // If a read can happen now, it need not happen later.
      return [follow(state)]
    } else all.push(...states.map(follow))
  }
  return all
}

/** Of equivalent steps, the one that ends first can happen first. */
function firstOfEach<Part, S extends Step<Part>>(steps: Iterable<S>): Iterable<S> {
  const first = new Map<string, S>()
  for (const step of steps) {
    const meaning = `${step.outcome} ${step.code} ${JSON.stringify(step.part)}`
    const found = first.get(meaning)
    if (!found || step.end < found.end) first.set(meaning, step)
  }
  return first.values()
}
