import { constants, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { ZxcvbnFactory } from '@zxcvbn-ts/core'
import * as common from '@zxcvbn-ts/language-common'
import * as german from '@zxcvbn-ts/language-de'
import * as english from '@zxcvbn-ts/language-en'
import * as spanish from '@zxcvbn-ts/language-es-es'
import * as french from '@zxcvbn-ts/language-fr'
import * as italian from '@zxcvbn-ts/language-it'
import * as dutch from '@zxcvbn-ts/language-nl-be'
import * as polish from '@zxcvbn-ts/language-pl'
import * as portuguese from '@zxcvbn-ts/language-pt-br'
import { createStrongEnds, STRONG_GUESSES } from './strong-ends.ts'

/** This thread estimates passwords: up to 0.3 s each, with dictionaries of about 200 MB. */

export interface EstimateRequest {
  id: number
  texts: string[]
  hints: string[]
}

export interface Estimate {
  guesses: number
  parts: { pattern: string; dictionary: string }[]
}

export interface EstimateReply extends Estimate {
  id: number
}

/** Each list slows every estimate, and the other lists of these languages add few words that people choose. */
const CHOSEN_LISTS = /commonWords|firstnames/i
const others = { german, spanish, french, italian, dutch, polish, portuguese }
const lists = Object.entries(others).flatMap(([language, { dictionary }]) =>
  Object.entries(dictionary)
    .filter(([name]) => CHOSEN_LISTS.test(name))
    .map(([name, words]) => [`${name}-${language}`, words]),
)
const options = {
  dictionary: { ...common.dictionary, ...english.dictionary, ...Object.fromEntries(lists) },
  graphs: common.adjacencyGraphs,
}
const estimator = new ZxcvbnFactory(options)
const hasStrongEnds = createStrongEnds(options)

// On Linux, this applies to this thread only. Below the priority of hashing (password.ts), a busy machine would starve it.
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_BELOW_NORMAL)

parentPort?.on('message', ({ id, texts, hints }: EstimateRequest) => {
  parentPort?.postMessage({ id, ...estimate(texts, hints) } satisfies EstimateReply)
})

function estimate(texts: string[], hints: string[]): Estimate {
  if (texts.some((text) => hasStrongEnds(text, hints))) return { guesses: STRONG_GUESSES, parts: [] }
  let strongest: Estimate = { guesses: 0, parts: [] }
  for (const text of texts) {
    const weakest = weakestOf(text, hints)
    if (weakest.guesses <= strongest.guesses) continue
    strongest = weakest
    if (strongest.guesses >= STRONG_GUESSES) break
  }
  return strongest
}

/** Attackers also guess a word first, then the year or the marks that people put around it. */
const WORD = /^(\P{L}*)(\p{L}+)(\P{L}*)$/u

function weakestOf(text: string, hints: string[]): Estimate {
  const whole = check(text, hints)
  const parts = (WORD.exec(text)?.slice(1) ?? []).filter((part) => part !== '')
  if (parts.length < 2) return whole
  const apart = parts.map((part) => check(part, hints))
  const guesses = apart.reduce((product, part) => product * part.guesses, 1)
  return guesses < whole.guesses ? { guesses, parts: apart.flatMap((part) => part.parts) } : whole
}

/** zxcvbn adds this for each further pattern, which would make any three strong, such as `Welcome`, `2026`, `!!`. */
const GUESSES_PER_PATTERN = 1e4

function check(text: string, hints: string[]): Estimate {
  const { guesses, sequence } = estimator.check(text, hints)
  const added = sequence.length > 1 ? GUESSES_PER_PATTERN ** (sequence.length - 1) : 0
  const parts = sequence.map(({ pattern, dictionaryName = '' }) => ({
    pattern,
    dictionary: String(dictionaryName),
  }))
  return { guesses: guesses - added, parts }
}
