/** Whether some order of operations, each at one moment between its begin and its end, explains what clients saw. */

/**
 * - ok: acknowledged
 * - refused: answered, and not done, for a reason that `code` has
 * - unknown: one of these, or no answer. It may have happened at any time after its begin, or never
 */
export type Outcome = 'ok' | 'refused' | 'unknown'

/** When an operation was, in milliseconds of a clock that never steps back, and how it ended. */
export interface Seen {
  begin: number
  /** Of an unknown one, when its client stopped waiting. */
  end: number
  outcome: Outcome
  /** Of a problem, such as `session_ended`, or of the error of a connection; empty if it is ok. */
  code: string
}

/** What is legal for one subject. A state is a value of JSON. */
export interface Rule<State, Part> {
  initial: State
  /** The states that can follow if an operation with this outcome happens now. None: in this state it cannot. */
  next(state: State, part: Part, seen: Seen): State[]
  /** Whether it leaves each state as it is. */
  isRead(part: Part, seen: Seen): boolean
}

export interface Step<Part> extends Seen {
  part: Part
}

/** What could be true at a moment: a state, and which of the operations in progress have happened already. */
interface World<State, S> {
  state: State
  done: ReadonlySet<S>
}

/** If there are more worlds than this, the search gives up. */
const MOST_WORLDS = 20_000

/** Until when an operation can happen whose outcome is unknown. */
export type Latest = (seen: Pick<Seen, 'begin' | 'end'>) => number

export class UndecidedError extends Error {}

/**
 * The first operation whose outcome no order explains; null if there is an order. Each answer keeps the worlds in which its
 * operation has happened (Lowe, "Testing for linearizability"). An unknown one stays in progress until the moment that
 * `latestOf` returns: until then it has happened, or it never does.
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
  // What begins as another ends overlaps it.
  return all.toSorted((a, b) => a.at - b.at || Number(a.isEnd) - Number(b.isEnd))
}

/** All worlds in which the step has happened, after any others in progress; if it is unknown, also those without it. */
function worldsWith<State, Part, S extends Step<Part>>(
  step: S,
  worlds: World<State, S>[],
  pending: ReadonlySet<S>,
  rule: Rule<State, Part>,
): World<State, S>[] {
  const [isNewHere, isNewThere] = [newcomers<State, S>(pending), newcomers<State, S>(pending)]
  const without = step.outcome === 'unknown' ? worlds.filter(({ done }) => !done.has(step)) : []
  const reached = without.filter(isNewThere)
  // Those in which the least has happened come first, so that nothing comes after what makes it needless.
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
 * Whether a world adds anything to those before it. If the state is the same, a world in which fewer of the unknown operations
 * have happened can become all that the other can: they need not happen.
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

/** Worlds in which one more operation in progress has happened. */
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
      // One that changes nothing need not happen.
      all.push(...states.filter((after) => JSON.stringify(after) !== before).map(follow))
    } else if (isRead(step.part, step) && states.length > 0) {
      // A read that can happen now needs no other moment.
      return [follow(state)]
    } else all.push(...states.map(follow))
  }
  return all
}

/** Of steps that mean the same, the one that ends first can just as well happen first. */
function firstOfEach<Part, S extends Step<Part>>(steps: Iterable<S>): Iterable<S> {
  const first = new Map<string, S>()
  for (const step of steps) {
    const meaning = `${step.outcome} ${step.code} ${JSON.stringify(step.part)}`
    const found = first.get(meaning)
    if (!found || step.end < found.end) first.set(meaning, step)
  }
  return first.values()
}
