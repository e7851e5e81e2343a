import { readdirSync, readFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { hash, verify } from '@node-rs/argon2'
import { estimate } from './password-strength.ts'
import type { Estimate } from './password-strength-thread.ts'

export interface HashParameters {
  memoryCost: number
  timeCost: number
  parallelism: number
}

/** OWASP's minimum for argon2id (ASVS 11.4.2): 19 MiB, 2 passes, 1 lane. Only tests use others. */
const PARAMETERS: HashParameters = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

export interface PasswordHasher {
  hash(password: string): Promise<string>
  /** An absent or empty hash costs the same work and never matches. */
  verify(phc: string | undefined, password: string): Promise<boolean>
  estimate(password: string, hints: string[]): Promise<Estimate>
  isOutdated(phc: string): boolean
}

/** Without a bound on parallel work: the service uses the one of limits/hashing.ts. */
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

/** Gives hashing a tenth of the weight of other work, so sign-ins hardly slow requests. Linux only. */
function lowerPriorityOfThreads(): void {
  try {
    for (const thread of readdirSync('/proc/self/task')) {
      const name = readFileSync(`/proc/self/task/${thread}/comm`, 'utf8').trim()
      if (name === 'libuv-worker') setPriority(Number(thread), constants.priority.PRIORITY_BELOW_NORMAL)
    }
  } catch {
    // This system has no /proc/self/task, or a thread has ended meanwhile.
  }
}

/** Different keyboards can write the same password in different bytes (RFC 8265, section 4.2). */
function normalize(password: string): string {
  return password.normalize('NFC')
}
