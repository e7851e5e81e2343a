import { Options, type OptionsType, ZxcvbnFactory } from '@zxcvbn-ts/core'

/**
 * A fast check that finds most strong long passwords. zxcvbn splits a text into patterns. In 20 characters or more, up to
 * three easy patterns show at one of the ends. If neither end can be part of an easy pattern, the text is strong.
 */

export const STRONG_GUESSES = 1e8
const END_LENGTH = 10
/** A cut word can rank differently than in its dictionary. */
const MIN_GUESSES_OF_END = 10 * STRONG_GUESSES
/** The two ends do not show such repetitions. */
const REPEATED = /(.{6,})\1/s
/** An end can cut a name in a sequence, such as a month. Shorter parts do not matter. */
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
  // With these, an end has fewer letters of its word than the cut word.
  const longSubstitutions = Object.values(options.l33tTable)
    .flat()
    .filter(({ length }) => length > 1)

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
