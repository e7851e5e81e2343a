import { Worker } from 'node:worker_threads'
import type { Estimate, Question, Verdict } from './password-judge.ts'

/**
 * How hard a password is to guess, by zxcvbn. Its work grows with the square of the length and more, so of a long
 * password it sees beginning and end: the whole is at least as hard to guess as one of these. One thread works for
 * the process, and ends when nobody has asked for a while, since its dictionaries are large.
 */

const MAX_SEEN = 24
const KEEP_MS = 60_000

interface Asked {
  resolve(verdict: Verdict): void
  reject(error: unknown): void
}

interface Judge {
  worker: Worker
  asked: Map<number, Asked>
}

let judge: Judge | undefined
let leaving: NodeJS.Timeout | undefined
let lastId = 0

export async function estimate(password: string, hints: string[]): Promise<Estimate> {
  judge ??= start()
  const { worker, asked } = judge
  clearTimeout(leaving)
  lastId += 1
  const question: Question = { id: lastId, texts: partsOf(password), hints }
  const { promise, resolve, reject } = Promise.withResolvers<Verdict>()
  asked.set(question.id, { resolve, reject })
  // The process does not end before the answer, but it does not wait for a thread that has nothing to do.
  worker.ref()
  worker.postMessage(question)
  return await promise
}

function partsOf(password: string): string[] {
  const characters = [...password]
  if (characters.length <= MAX_SEEN) return [password]
  return [characters.slice(0, MAX_SEEN), characters.slice(-MAX_SEEN)].map((part) => part.join(''))
}

function start(): Judge {
  const worker = new Worker(new URL('./password-judge.ts', import.meta.url))
  const asked: Judge['asked'] = new Map()
  worker.on('message', (verdict: Verdict) => {
    asked.get(verdict.id)?.resolve(verdict)
    asked.delete(verdict.id)
    if (asked.size > 0) return
    worker.unref()
    leaving = setTimeout(end, KEEP_MS).unref()
  })
  worker.on('error', (error) => {
    judge = undefined
    for (const { reject } of asked.values()) reject(error)
  })
  return { worker, asked }
}

function end(): void {
  void judge?.worker.terminate()
  judge = undefined
}
