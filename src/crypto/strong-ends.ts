import { Options, type OptionsType, ZxcvbnFactory } from '@zxcvbn-ts/core'

/**
 * Finds most strong long passwords, fast. zxcvbn sees a text as a row of patterns. In 20 characters or more, three that are
 * easy to guess are too short to hide from both ends, and of two, one covers the first half or the last. If neither outer
 * end can be part of a pattern that is easy to guess, the text is strong.
 */

export const STRONG_GUESSES = 1e8
const END_LENGTH = 10
/** A cut word can have another rank than in its dictionary. */
const MIN_GUESSES_OF_END = 10 * STRONG_GUESSES
/** Repetitions that the two ends do not show. */
const REPEATED = /(.{6,})\1/s
/** A sequence of words, such as months, can be cut within a word. Shorter parts do not matter. */
const MIN_CUT_NAME = 4

export function createStrongEnds({
  dictionary = {},
  graphs = {},
}: Pick<OptionsType, 'dictionary' | 'graphs'>) {
  const options = new Options()
  const names = Object.entries(dictionary).flatMap(([key, words]) =>
    options.isWordSequence(key) ? words.map(String) : [],
  )
  const estimator = new ZxcvbnFactory({
    dictionary: { months: names, cut: [...cutWords(dictionary), ...cutNames(names)] },
    graphs,
  })
  // Written with these, an end has fewer letters of its word than the cut one.
  const longSubstitutions = Object.values(options.l33tTable)
    .flat()
    .filter(({ length }) => length > 1)

  /** False also if it cannot tell. */
  return (text: string, hints: string[]): boolean => {
    if (text.length < 2 * END_LENGTH || REPEATED.test(text)) return false
    if (longSubstitutions.some((substitution) => text.toLowerCase().includes(substitution))) return false
    const words = [...new Set(hints.flatMap((hint) => [hint, ...endsOf(hint)]))]
    return endsOf(text).every((end) => estimator.check(end, words).guesses >= MIN_GUESSES_OF_END)
  }
}

function endsOf(text: string): string[] {
  return [text.slice(0, END_LENGTH), text.slice(-END_LENGTH)]
}

function cutWords(dictionary: Record<string, (string | number)[]>): string[] {
  const long = Object.values(dictionary)
    .flatMap((words) => words.map((word, rank) => ({ word: String(word), rank })))
    .filter(({ word }) => word.length >= END_LENGTH)
    .sort((one, other) => one.rank - other.rank)
  return [...new Set(long.flatMap(({ word }) => endsOf(word)))]
}

function cutNames(names: string[]): string[] {
  const cut = names.flatMap((name) => Array.from(name, (_, at) => [name.slice(0, at), name.slice(at)]).flat())
  return [...new Set(cut)].filter(({ length }) => length >= MIN_CUT_NAME)
}
