import { createHash } from 'node:crypto'

/** The same seed repeats the same choices. */
export interface Random {
  /** At least 0 and below 1. */
  fraction(): number
  /** A whole number from 0, below `end`. */
  below(end: number): number
  isOneIn(count: number): boolean
  pick<T>(items: readonly T[]): T
  /** At most 64 letters and digits. */
  word(length: number): string
  /** Independent of how often this one was called. */
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
