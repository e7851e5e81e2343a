import { createHash } from 'node:crypto'

/** A seeded generator: with the same seed the same choices come again. */
export interface Random {
  /** At least 0 and below 1. */
  fraction(): number
  /** A whole number below `end`. */
  below(end: number): number
  isOneIn(count: number): boolean
  /** @throws if there is nothing to pick */
  pick<T>(items: readonly T[]): T
  /** A word of so many letters and digits, 64 at most. */
  word(length: number): string
  /** One that does not depend on how often this one is asked. */
  of(name: string): Random
}

export function createRandom(seed: string): Random {
  let count = 0
  function next(): Buffer {
    count += 1
    return createHash('sha256').update(`${count} ${seed}`).digest()
  }
  const fraction = () => next().readUInt32BE() / 2 ** 32
  const below = (end: number) => Math.floor(fraction() * end)
  return {
    fraction,
    below,
    isOneIn: (count) => below(count) === 0,
    pick(items) {
      const item = items[below(items.length)]
      if (item === undefined) throw new Error('nothing to pick')
      return item
    },
    word: (length) => next().toString('hex').slice(0, length),
    of: (name) => createRandom(`${seed} ${name}`),
  }
}
