import { constants, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { ZxcvbnFactory } from '@zxcvbn-ts/core'
import * as common from '@zxcvbn-ts/language-common'
import * as english from '@zxcvbn-ts/language-en'

/**
 * The thread that estimates passwords. Its dictionaries take some 80 MB. An estimate takes up to a tenth of a second,
 * in which the thread of requests must not be blocked.
 */

export interface EstimateRequest {
  id: number
  texts: string[]
  hints: string[]
}

/** How many guesses the strongest of the texts takes, and what parts it is made of. */
export interface Estimate {
  guesses: number
  parts: { pattern: string; dictionary: string }[]
}

export interface EstimateReply extends Estimate {
  id: number
}

// On Linux this is the priority of this thread alone, as with those that hash: see password.ts.
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_LOW)

const estimator = new ZxcvbnFactory({
  dictionary: { ...common.dictionary, ...english.dictionary },
  graphs: common.adjacencyGraphs,
})

parentPort?.on('message', ({ id, texts, hints }: EstimateRequest) => {
  const [strongest] = texts
    .map((text) => estimator.check(text, hints))
    .sort((one, other) => other.guesses - one.guesses)
  const parts = (strongest?.sequence ?? []).map(({ pattern, dictionaryName = '' }) => ({
    pattern,
    dictionary: String(dictionaryName),
  }))
  parentPort?.postMessage({ id, guesses: strongest?.guesses ?? 0, parts } satisfies EstimateReply)
})
