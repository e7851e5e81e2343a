import { readdirSync, readFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { hash, verify } from '@node-rs/argon2'
import { estimate } from './password-strength.ts'
import type { Estimate } from './password-strength-thread.ts'

/** How much argon2id, the library's default algorithm, works for a hash. */
export interface HashParameters {
  /** In KiB. */
  memoryCost: number
  timeCost: number
  parallelism: number
}

/** OWASP's minimum (ASVS 11.4.2): 19 MiB, 2 passes, 1 lane. Only tests use others. */
const PARAMETERS: HashParameters = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

/** What is done with passwords and costs much. */
export interface PasswordHasher {
  /** The PHC string of a password. */
  hash(password: string): Promise<string>
  /** Whether the password matches. An absent or empty hash costs the same work and never matches. */
  verify(phc: string | undefined, password: string): Promise<boolean>
  /** How hard a new password is to guess for somebody who knows the hints. */
  estimate(password: string, hints: string[]): Promise<Estimate>
  /** Whether a hash was made with parameters other than the current ones. */
  isOutdated(phc: string): boolean
}

/** A hasher without a bound on parallel work. The service uses the bounded one in limits/hashing.ts. */
export async function createPasswordHasher(parameters = PARAMETERS): Promise<PasswordHasher> {
  // libuv starts its threads with its first work, so their priority can be set only after this hash.
  const nobodysHash = await hash('', parameters)
  lowerPriorityOfThreads()
  const { memoryCost, timeCost, parallelism } = parameters
  const current = `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$`
  return {
    hash: (password) => hash(normalize(password), parameters),
    estimate,
    isOutdated: (phc) => !phc.startsWith(current),
    async verify(phc, password) {
      const matches = await verify(phc || nobodysHash, normalize(password))
      return matches && phc !== undefined && phc !== ''
    },
  }
}

/**
 * Gives libuv's threads, which hash passwords, a tenth of the weight of others, so that a flood of sign-ins gets
 * little more than the time that requests and Postgres leave, and other floods do not keep everybody from signing in.
 * On Linux each thread has a priority; elsewhere this does nothing.
 */
function lowerPriorityOfThreads(): void {
  try {
    for (const thread of readdirSync('/proc/self/task')) {
      const name = readFileSync(`/proc/self/task/${thread}/comm`, 'utf8').trim()
      if (name === 'libuv-worker') setPriority(Number(thread), constants.priority.PRIORITY_BELOW_NORMAL)
    }
  } catch {
    // This system has no /proc/self/task, or a thread has ended in the meantime.
  }
}

/** NFC makes the same bytes of a password that was typed on different keyboards (RFC 8265, section 4.2). */
function normalize(password: string): string {
  return password.normalize('NFC')
}
