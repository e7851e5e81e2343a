import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism, constants, setPriority } from 'node:os'
import { hash, verify } from '@node-rs/argon2'

/** OWASP's minimum for argon2id, the library's default algorithm (ASVS 11.4.2): 19 MiB, 2 passes, 1 lane. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const
const CURRENT = '$argon2id$v=19$m=19456,t=2,p=1$'

/** Thrown when more hashing waits than can be done soon. */
export class HashingOverload extends Error {
  override name = 'HashingOverload'
}

export interface PasswordHasher {
  /** The PHC string of a password. */
  hash(password: string): Promise<string>
  /** Whether the password matches; an absent hash costs the same work and matches nothing. */
  verify(phc: string | undefined, password: string): Promise<boolean>
  /** How many wait for their turn. */
  readonly waiting: number
  /** How many may be at work or wait at the same time. */
  readonly capacity: number
}

/** Whether a hash was made with other parameters than today's. */
export function isOutdated(phc: string): boolean {
  return !phc.startsWith(CURRENT)
}

/**
 * Hashing that leaves the machine to others: at most as many at a time as there are cores, since each takes
 * one whole core and one of libuv's threads, and a bounded queue, since a long one answers nobody in time.
 */
export async function createPasswordHasher(
  concurrency = availableParallelism(),
  maxWaiting = 32 * concurrency,
): Promise<PasswordHasher> {
  const waiting: (() => void)[] = []
  let running = 0

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (running >= concurrency) {
      if (waiting.length >= maxWaiting) throw new HashingOverload('too many passwords wait to be checked')
      await new Promise<void>((resolve) => waiting.push(resolve))
    } else running += 1
    try {
      return await work()
    } finally {
      // The place is handed on, not freed: a newcomer cannot slip in before those who wait.
      const next = waiting.shift()
      if (next) next()
      else running -= 1
    }
  }

  const nobodysHash = await hash('', PARAMETERS)
  yieldToOthers()
  return {
    hash: (password) => inTurn(() => hash(normalize(password), PARAMETERS)),
    async verify(phc, password) {
      const matches = await inTurn(() => verify(phc ?? nobodysHash, normalize(password)))
      return matches && phc !== undefined
    },
    get waiting() {
      return waiting.length
    },
    capacity: concurrency + maxWaiting,
  }
}

/**
 * Gives the threads that hash the lowest priority, so that a flood of sign-ins takes only the time that
 * requests and Postgres leave. On Linux a thread has a priority of its own; elsewhere this does nothing.
 */
function yieldToOthers(): void {
  try {
    for (const thread of readdirSync('/proc/self/task')) {
      const name = readFileSync(`/proc/self/task/${thread}/comm`, 'utf8').trim()
      if (name === 'libuv-worker') setPriority(Number(thread), constants.priority.PRIORITY_LOW)
    }
  } catch {
    // No such view of threads here, or one that ended meanwhile.
  }
}

/** The same password typed on two keyboards is the same bytes (RFC 8265, section 4.2). */
function normalize(password: string): string {
  return password.normalize('NFC')
}
