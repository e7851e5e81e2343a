import { readdirSync, readFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { hash, verify } from '@node-rs/argon2'

/** OWASP's minimum for argon2id, the library's default algorithm (ASVS 11.4.2): 19 MiB, 2 passes, 1 lane. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const
const CURRENT = '$argon2id$v=19$m=19456,t=2,p=1$'

export interface PasswordHasher {
  /** The PHC string of a password. */
  hash(password: string): Promise<string>
  /** Whether the password matches. An absent hash costs the same work and matches nothing. */
  verify(phc: string | undefined, password: string): Promise<boolean>
}

/** Whether a hash was made with other parameters than those of today. */
export function isOutdated(phc: string): boolean {
  return !phc.startsWith(CURRENT)
}

/** Hashing without a bound on how much runs at a time: see limits/hashing.ts for the one that the service uses. */
export async function createPasswordHasher(): Promise<PasswordHasher> {
  // libuv starts its threads with the first work that it gets, so only now can they be given a priority.
  const nobodysHash = await hash('', PARAMETERS)
  lowerPriorityOfThreads()
  return {
    hash: (password) => hash(normalize(password), PARAMETERS),
    async verify(phc, password) {
      const matches = await verify(phc ?? nobodysHash, normalize(password))
      return matches && phc !== undefined
    },
  }
}

/**
 * Gives libuv's threads, which hash, the lowest priority, so that a flood of sign-ins takes only the time that
 * requests and Postgres leave. On Linux a thread has a priority of its own; elsewhere this does nothing.
 */
function lowerPriorityOfThreads(): void {
  try {
    for (const thread of readdirSync('/proc/self/task')) {
      const name = readFileSync(`/proc/self/task/${thread}/comm`, 'utf8').trim()
      if (name === 'libuv-worker') setPriority(Number(thread), constants.priority.PRIORITY_LOW)
    }
  } catch {
    // There is no such view of threads here, or one has ended meanwhile.
  }
}

/** The same password typed on two keyboards is the same bytes (RFC 8265, section 4.2). */
function normalize(password: string): string {
  return password.normalize('NFC')
}
