import { constants, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { ZxcvbnFactory } from '@zxcvbn-ts/core'
import * as common from '@zxcvbn-ts/language-common'
import * as english from '@zxcvbn-ts/language-en'
import { createStrongEnds, STRONG_GUESSES } from './strong-ends.ts'

/** The thread that estimates passwords: up to 0.1 s each, with dictionaries of some 80 MB. */

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

const options = {
  dictionary: { ...common.dictionary, ...english.dictionary },
  graphs: common.adjacencyGraphs,
}
const estimator = new ZxcvbnFactory(options)
const hasStrongEnds = createStrongEnds(options)

// On Linux this sets the priority of this thread alone. A lower one than that of hashing (password.ts) would starve it on
// a machine that is busy with other things.
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_BELOW_NORMAL)

parentPort?.on('message', ({ id, texts, hints }: EstimateRequest) => {
  parentPort?.postMessage({ id, ...estimate(texts, hints) } satisfies EstimateReply)
})

function estimate(texts: string[], hints: string[]): Estimate {
  if (texts.some((text) => hasStrongEnds(text, hints))) return { guesses: STRONG_GUESSES, parts: [] }
  let strongest: Estimate = { guesses: 0, parts: [] }
  for (const text of texts) {
    const { guesses, sequence } = estimator.check(text, hints)
    if (guesses <= strongest.guesses) continue
    const parts = sequence.map(({ pattern, dictionaryName = '' }) => ({
      pattern,
      dictionary: String(dictionaryName),
    }))
    strongest = { guesses, parts }
    if (guesses >= STRONG_GUESSES) break
  }
  return strongest
}
