import type { Credentials } from '../../kit/operations.ts'
import { findingsHold, succeed } from '../aims.ts'
import type { Finding } from '../figures.ts'
import { ipv4Networks } from '../networks.ts'
import type { FloodTarget } from '../target/open-target.ts'
import { signInVia, tryPassword } from '../target/sign-in-via.ts'
import type { Flood } from './flood.ts'

/** Guessing at one account from many networks, each below its own limit. */

const NETWORKS = 40
const GUESSES_EACH = 10
const GUESSES = NETWORKS * GUESSES_EACH
/** So many wrong guesses at an account are made before the right password is tried from a new network. */
const STEPS = [10, 30, 45, 50, 60, 100]
const MAX_COMPARED = 50
const networks = ipv4Networks(100_000)
const KNOWN = 90_000
const UNKNOWN = 91_000

export const guessing: Flood = {
  about: `${GUESSES} guesses at one account from ${NETWORKS} networks`,
  aims: [findingsHold, succeed(0.98, 'sign-in, known network', 'sign-in, known device')],
  async meanwhile(target) {
    const [account, ...others] = target.attacked
    if (!account) return []
    await signInVia(target, account, networks(KNOWN))
    await guess(target, account, GUESSES, 0)
    const stranger = (await tryPassword(target, account, networks(UNKNOWN))).status
    const owner = (await tryPassword(target, account, networks(KNOWN))).status
    const compared = stranger === 200 ? GUESSES : await countCompared(target, others)
    return [
      {
        what: `guesses that are compared, of ${GUESSES}`,
        value: compared,
        unit: '',
        isMet: compared <= MAX_COMPARED,
      },
      statusFinding('the right password from an unknown network afterwards', stranger, 401),
      statusFinding('the right password from a known network afterwards', owner, 200),
    ]
  },
}

/** Wrong passwords from one network after the other, beginning with the `first` one. */
async function guess(target: FloodTarget, account: Credentials, count: number, first: number): Promise<void> {
  for (let from = 0; from < count; from += GUESSES_EACH) {
    const some = Array.from({ length: Math.min(GUESSES_EACH, count - from) }, (_, n) => from + n)
    const password = (n: number) => ({ ...account, password: `wrong password ${n}` })
    const network = networks(first + from / GUESSES_EACH)
    const answers = await Promise.all(some.map((n) => tryPassword(target, password(n), network)))
    // 429 if one was tried again, whose answer was lost.
    const other = answers.find(({ status }) => status !== 401 && status !== 429)
    if (other) throw new Error(`a guess was answered ${other.status}: ${other.text}`)
  }
}

/** The least number of guesses after which the right password is refused to an unknown network. */
async function countCompared(target: FloodTarget, accounts: Credentials[]): Promise<number> {
  for (const [n, step] of STEPS.entries()) {
    const account = accounts[n]
    if (!account) break
    await guess(target, account, step, (n + 1) * NETWORKS)
    if ((await tryPassword(target, account, networks(UNKNOWN + n + 1))).status !== 200) return step
  }
  return GUESSES
}

function statusFinding(what: string, status: number, expected: number): Finding {
  return { what, value: status, unit: '', isMet: status === expected }
}
