/** A seeded generator: with the same seed the same choices come again. */
export interface Random {
  /** At least 0 and below 1. */
  fraction(): number
  /** A whole number below `end`. */
  below(end: number): number
  isOneIn(count: number): boolean
  /** @throws if there is nothing to pick */
  pick<T>(items: readonly T[]): T
  /** A word of so many letters and digits. */
  word(length: number): string
  /** One that does not depend on how often this one is asked. */
  of(name: string): Random
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789'

/** SplitMix32: each number is a mixed count, so any seed is as good as any other. */
export function createRandom(seed: string): Random {
  let state = hash(seed)
  function fraction(): number {
    state = (state + 0x9e3779b9) | 0
    let mixed = state ^ (state >>> 16)
    mixed = Math.imul(mixed, 0x21f0aaad)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32
  }
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
    word: (length) => Array.from({ length }, () => LETTERS[below(LETTERS.length)]).join(''),
    of: (name) => createRandom(`${seed} ${name}`),
  }
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (const character of text) value = Math.imul(value ^ (character.codePointAt(0) ?? 0), 0x01000193)
  return value
}
