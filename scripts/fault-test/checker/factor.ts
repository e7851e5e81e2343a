import type { Rule } from './search.ts'
import type { Seen } from './seen.ts'

/**
 * The second factor of a member. While there is one, the right password brings a challenge and no session. A challenge is
 * answered once, and then no other one waits. A code is accepted once: an app's only if it is of a later step than the last, a
 * recovery code until others replace it. A recovery code that is in force is not refused, unless its challenge is over. (An app's
 * can be: clocks of instances differ.)
 */
export type FactorPart = {
  kind: 'factor'
  id: string
} /** The first code puts an app in force, and recovery codes with it; null if nobody got them. */ & (
  | { act: 'enrol'; secret: string; step: number; codes: string[] | null }
  | { act: 'replace'; codes: string[] | null }
  | { act: 'remove'; secret: string }
  /** Undo: whatever there is. */
  | { act: 'reset' }
  /** What ends all sessions also ends the challenges. */
  | { act: 'forget' }
  | { act: 'ask'; challenge: string }
  | { act: 'answer'; challenge: string; proof: Proof }
  /** Signed in by the password alone. */
  | { act: 'enter' }
)

export type Proof = { code: string } | { secret: string; step: number }

interface State {
  /** Of the app; empty without one. */
  secret: string
  lastStep: number
  /** The recovery codes that are in force, of those that are known. */
  codes: string[]
  challenges: string[]
}

const NONE: State = { secret: '', lastStep: 0, codes: [], challenges: [] }

export const factorRule: Rule<State, FactorPart> = {
  initial: NONE,
  next(state, part, seen) {
    const { outcome, code } = seen
    const hasOne = state.secret !== ''
    switch (part.act) {
      case 'ask':
        return hasOne ? [{ ...state, challenges: [...state.challenges, part.challenge] }] : []
      case 'enter':
        return outcome === 'ok' && hasOne ? [] : [state]
      case 'answer':
        return answer(state, part, seen)
      case 'forget':
        return [{ ...state, challenges: [] }]
      case 'reset':
        return [NONE]
      case 'remove':
        if (outcome === 'refused') return code === 'not_found' && state.secret === part.secret ? [] : [state]
        if (state.secret === part.secret) return [NONE]
        return outcome === 'ok' ? [] : [state]
      case 'enrol': {
        if (outcome === 'refused') return [state]
        const { secret, step: lastStep, codes } = part
        if (state.secret === secret) return outcome === 'ok' ? [] : [state]
        return [{ secret, lastStep, codes: codes ?? state.codes, challenges: [] }]
      }
      case 'replace':
        if (outcome === 'refused') return [state]
        if (!hasOne) return outcome === 'ok' ? [] : [state]
        return [{ ...state, codes: part.codes ?? [] }]
    }
  },
  isRead: ({ act }, { outcome }) =>
    act === 'enter' || (outcome === 'refused' && act !== 'ask' && act !== 'forget' && act !== 'reset'),
}

function answer(
  state: State,
  { challenge, proof }: Extract<FactorPart, { act: 'answer' }>,
  { outcome, code }: Seen,
): State[] {
  const isOpen = state.challenges.includes(challenge)
  const isGood =
    'code' in proof
      ? state.codes.includes(proof.code)
      : proof.secret === state.secret && proof.step > state.lastStep
  if (outcome === 'refused') {
    const isWrong = code === 'invalid_second_factor' && isOpen && isGood && 'code' in proof
    return isWrong ? [] : [state]
  }
  if (!isOpen || !isGood) return outcome === 'ok' ? [] : [state]
  if ('code' in proof)
    return [{ ...state, codes: state.codes.filter((one) => one !== proof.code), challenges: [] }]
  return [{ ...state, lastStep: proof.step, challenges: [] }]
}
