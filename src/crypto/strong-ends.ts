import { Options, type OptionsType, ZxcvbnFactory } from '@zxcvbn-ts/core'

/**
 * Recognizes most long passwords that are strong, in a small part of the time that an estimate takes. zxcvbn sees a password
 * as a row of patterns, and three of them take more than 10^8 guesses, whatever they are. So one that takes fewer consists of
 * two at most, and one of these covers its first half or its last. It is enough to look at the outer end of each half: if
 * neither can be a part of one pattern that is easy to guess, the password is strong.
 */

/** What three patterns take at least. */
export const STRONG_GUESSES = 1e8
const END_LENGTH = 10
/** A word can have another rank among those that are cut than in its dictionary. */
const MIN_GUESSES_OF_END = 10 * STRONG_GUESSES
/** Repetitions whose ends do not repeat themselves. */
const REPEATED = /(.{6,})\1/s
/** A sequence of words, such as months, can end within one. Of shorter parts there is no need to know. */
const MIN_CUT_NAME = 4

/** Whether a text takes `STRONG_GUESSES`; false also if that is not known. */
type HasStrongEnds = (text: string, hints: string[]) => boolean

export function createStrongEnds({
  dictionary = {},
  graphs = {},
}: Pick<OptionsType, 'dictionary' | 'graphs'>): HasStrongEnds {
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

  return (text, hints) => {
    if (text.length < 2 * END_LENGTH || REPEATED.test(text)) return false
    if (longSubstitutions.some((substitution) => text.toLowerCase().includes(substitution))) return false
    const known = [...new Set(hints.flatMap((hint) => [hint, ...endsOf(hint)]))]
    return endsOf(text).every((end) => estimator.check(end, known).guesses >= MIN_GUESSES_OF_END)
  }
}

function endsOf(text: string): string[] {
  return [text.slice(0, END_LENGTH), text.slice(-END_LENGTH)]
}

/** The ends of long words, by their ranks. */
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
