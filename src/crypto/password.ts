import { readdirSync, readFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import { hash, verify } from '@node-rs/argon2'
import type { Estimate, EstimateReply, EstimateRequest } from './password-strength-thread.ts'

export const MAX_LENGTH = 128

export interface HashParameters {
  memoryCost: number
  timeCost: number
  parallelism: number
}

/** OWASP's minimum for argon2id (ASVS 11.4.2). Only tests use others. */
const PARAMETERS: HashParameters = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

export type PasswordHasher = Awaited<ReturnType<typeof createPasswordHasher>>

/** Does not bound parallel work: limits/admission.ts does. */
export async function createPasswordHasher(parameters = PARAMETERS) {
  // libuv starts its threads with the first work, so their priority can be set only after this hash.
  const nobodysHash = await hash('', parameters)
  lowerPriorityOfThreads()
  const { memoryCost, timeCost, parallelism } = parameters
  const current = `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$`
  return {
    hash: (password: string) => hash(normalize(password), parameters),
    estimate,
    isOutdated: (phc: string) => !phc.startsWith(current),
    /** A missing or empty hash costs the same work and never matches. */
    async verify(phc: string | undefined, password: string): Promise<boolean> {
      const matches = await verify(phc || nobodysHash, normalize(password))
      return matches && phc !== undefined && phc !== ''
    },
  }
}

/** Hashing gets a tenth of the weight of other work, so that sign-ins hardly slow down requests. Linux only. */
function lowerPriorityOfThreads(): void {
  try {
    for (const thread of readdirSync('/proc/self/task')) {
      const name = readFileSync(`/proc/self/task/${thread}/comm`, 'utf8').trim()
      if (name === 'libuv-worker') setPriority(Number(thread), constants.priority.PRIORITY_BELOW_NORMAL)
    }
  } catch {
    // No /proc/self/task, or a thread just ended.
  }
}

/** Keyboards can produce different bytes for the same password (RFC 8265, section 4.2). */
function normalize(password: string): string {
  return password.normalize('NFC')
}

export function lengthOf(password: string): number {
  return [...normalize(password)].length
}

export function isTooLong(password: string): boolean {
  return lengthOf(password) > MAX_LENGTH
}

/** The work of zxcvbn grows at least with the square of the length, so only both ends of a long password are judged. */
const MAX_SEEN = 24
const IDLE_MS = 10_000

let thread: ReturnType<typeof startThread> | undefined
let idleTimer: NodeJS.Timeout | undefined
let lastId = 0

export async function estimate(password: string, hints: string[]): Promise<Estimate> {
  thread ??= startThread()
  const { worker, pending } = thread
  clearTimeout(idleTimer)
  lastId += 1
  const request: EstimateRequest = { id: lastId, texts: partsOf(password), hints }
  const reply = Promise.withResolvers<EstimateReply>()
  pending.set(request.id, reply)
  // Only an idle thread may let the process exit.
  worker.ref()
  worker.postMessage(request)
  return await reply.promise
}

function partsOf(password: string): string[] {
  const characters = [...password]
  if (characters.length <= MAX_SEEN) return [password]
  return [characters.slice(0, MAX_SEEN), characters.slice(-MAX_SEEN)].map((part) => part.join(''))
}

function startThread() {
  const worker = new Worker(new URL('./password-strength-thread.ts', import.meta.url))
  const pending = new Map<number, PromiseWithResolvers<EstimateReply>>()
  worker.on('message', (reply: EstimateReply) => {
    pending.get(reply.id)?.resolve(reply)
    pending.delete(reply.id)
    if (pending.size > 0) return
    worker.unref()
    idleTimer = setTimeout(() => {
      void worker.terminate()
      thread = undefined
    }, IDLE_MS).unref()
  })
  worker.on('error', (error) => {
    thread = undefined
    for (const { reject } of pending.values()) reject(error)
  })
  return { worker, pending }
}
