import type { Seen } from './seen.ts'

/** Whether some order of operations, each at one moment between its begin and its end, explains what clients saw. */

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
interface World<State> {
  state: State
  done: ReadonlySet<number>
}

/** More worlds than this are not looked at: such a history decides nothing. */
const MOST_WORLDS = 20_000

/** Until when an operation can happen whose outcome is unknown. */
export type Latest = (seen: Pick<Seen, 'begin' | 'end'>) => number

export class UndecidedError extends Error {}

/**
 * The first operation whose outcome no order explains; null if there is an order. Each answer keeps the worlds in which its
 * operation has happened (Lowe, "Testing for linearizability"). An unknown one stays in progress until the moment that
 * `latestOf` tells: by then it has happened, or it never does.
 */
export function findUnexplained<State, Part, S extends Step<Part>>(
  rule: Rule<State, Part>,
  steps: readonly S[],
  latestOf: Latest,
): S | null {
  const pending = new Set<number>()
  let worlds: World<State>[] = [{ state: rule.initial, done: new Set() }]
  for (const { index, isEnd } of momentsOf(steps, latestOf)) {
    const step = steps[index]
    if (!isEnd) pending.add(index)
    else {
      worlds = worldsWith(index, worlds, pending, rule, steps)
      if (worlds.length === 0) return step ?? null
      pending.delete(index)
    }
  }
  return null
}

function momentsOf(steps: readonly Seen[], latestOf: Latest) {
  const begins = steps.map(({ begin: at }, index) => ({ at, index, isEnd: false }))
  const lastAnswer = Math.max(...steps.map(({ end, outcome }) => (outcome === 'unknown' ? 0 : end)))
  const ends = steps
    .map((seen, index) => ({
      at: seen.outcome === 'unknown' ? latestOf(seen) : seen.end,
      index,
      isEnd: true,
    }))
    .filter(({ at }) => at <= lastAnswer)
  // What begins as another ends overlaps it.
  return [...begins, ...ends].toSorted((a, b) => a.at - b.at || Number(a.isEnd) - Number(b.isEnd))
}

/** All worlds in which operation `index` has happened, by way of any others in progress; if it is unknown, also those without it. */
function worldsWith<State, Part>(
  index: number,
  worlds: World<State>[],
  pending: ReadonlySet<number>,
  rule: Rule<State, Part>,
  steps: readonly Step<Part>[],
): World<State>[] {
  const [isNewHere, isNewThere] = [newcomers<State>(steps), newcomers<State>(steps)]
  const without = steps[index]?.outcome === 'unknown' ? worlds.filter(({ done }) => !done.has(index)) : []
  const reached = without.filter(isNewThere)
  // In the order of how much has happened, so that nothing comes after what makes it needless.
  const toExplore = worlds.toSorted((one, other) => one.done.size - other.done.size)
  for (const world of toExplore) {
    if (!isNewHere(world)) continue
    if (toExplore.length > MOST_WORLDS) throw new UndecidedError('too many orders are possible')
    if (world.done.has(index)) {
      const done = new Set(world.done)
      done.delete(index)
      const after = { state: world.state, done }
      if (isNewThere(after)) reached.push(after)
    } else toExplore.push(...followers(world, pending, rule, steps))
  }
  return reached
}

/**
 * Whether a world adds anything to those before it. With the same state, one in which fewer of the unknown operations have happened
 * can become all that the other can: they need not happen.
 */
function newcomers<State>(steps: readonly Seen[]): (world: World<State>) => boolean {
  const isUnknown = (index: number) => steps[index]?.outcome === 'unknown'
  const known = new Map<string, number[][]>()
  return ({ state, done }) => {
    const { unknown = [], other = [] } = Object.groupBy(done, (index) =>
      isUnknown(index) ? 'unknown' : 'other',
    )
    const key = keyOf({ state, done: new Set(other) })
    const alike = known.get(key) ?? []
    if (alike.some((fewer) => fewer.every((index) => done.has(index)))) return false
    known.set(key, [...alike, unknown])
    return true
  }
}

/** Worlds in which one more operation in progress has happened. */
function followers<State, Part>(
  { state, done }: World<State>,
  pending: ReadonlySet<number>,
  { next, isRead }: Rule<State, Part>,
  steps: readonly Step<Part>[],
): World<State>[] {
  const all: World<State>[] = []
  const before = JSON.stringify(state)
  // Of those that mean the same, the one that ends first can as well happen first.
  for (const [index, step] of firstOfEach(pending, done, steps)) {
    const states = next(state, step.part, step)
    const follow = (after: State) => ({ state: after, done: new Set([...done, index]) })
    if (step.outcome === 'unknown') {
      // One that changes nothing need not happen.
      all.push(...states.filter((after) => JSON.stringify(after) !== before).map(follow))
    } else if (isRead(step.part, step) && states.length > 0) {
      // What reads, and can happen now, can as well.
      return [follow(state)]
    } else all.push(...states.map(follow))
  }
  return all
}

function firstOfEach<Part>(
  pending: ReadonlySet<number>,
  done: ReadonlySet<number>,
  steps: readonly Step<Part>[],
): Iterable<[number, Step<Part>]> {
  const first = new Map<string, [number, Step<Part>]>()
  for (const index of pending) {
    const step = steps[index]
    if (!step || done.has(index)) continue
    const meaning = `${step.outcome} ${step.code} ${JSON.stringify(step.part)}`
    const found = first.get(meaning)
    if (!found || step.end < found[1].end) first.set(meaning, [index, step])
  }
  return first.values()
}

function keyOf<State>({ state, done }: World<State>): string {
  return `${[...done].toSorted((a, b) => a - b).join()} ${JSON.stringify(state)}`
}
