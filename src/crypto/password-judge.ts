import { constants, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { ZxcvbnFactory } from '@zxcvbn-ts/core'
import * as common from '@zxcvbn-ts/language-common'
import * as english from '@zxcvbn-ts/language-en'

/**
 * The thread that estimates passwords: what it needs takes some 80 MB, and the estimate of one text up to a tenth of
 * a second, in which the thread of requests must not stand still.
 */

export interface Question {
  id: number
  texts: string[]
  hints: string[]
}

/** How many guesses the strongest of the texts takes, and what parts it is made of. */
export interface Estimate {
  guesses: number
  parts: { pattern: string; dictionary: string }[]
}

export interface Verdict extends Estimate {
  id: number
}

// On Linux this is the priority of this thread alone, as with those that hash: see password.ts.
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_LOW)

const judge = new ZxcvbnFactory({
  dictionary: { ...common.dictionary, ...english.dictionary },
  graphs: common.adjacencyGraphs,
})

parentPort?.on('message', ({ id, texts, hints }: Question) => {
  const [strongest] = texts
    .map((text) => judge.check(text, hints))
    .sort((one, other) => other.guesses - one.guesses)
  const parts = (strongest?.sequence ?? []).map(({ pattern, dictionaryName = '' }) => ({
    pattern,
    dictionary: String(dictionaryName),
  }))
  parentPort?.postMessage({ id, guesses: strongest?.guesses ?? 0, parts } satisfies Verdict)
})
