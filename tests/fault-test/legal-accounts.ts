import type { Operation, Part } from '../../scripts/fault-test/checker/history.ts'
import type { Random } from '../../scripts/fault-test/random.ts'
import type { Answer, Attempt } from './legal-service.ts'

/** An account in memory with a second factor, and a session with a cookie: each is used by several clients. */

const ok = (...parts: Part[]): Answer => ({ outcome: 'ok', parts })
const refuse = (code: string, ...parts: Part[]): Answer => ({ outcome: 'refused', code, parts })

export function openAccounts(random: Random) {
  const made: Operation[] = [
    {
      ...{ client: 'admin', what: 'create', begin: -2, end: -1, outcome: 'ok', code: '', status: 0 },
      parts: [
        { kind: 'member', id: 'n', act: 'make', role: 'viewer', email: 'e0', password: 'p0' },
        { kind: 'session', id: 'browser', act: 'open', owner: 'n', token: 'c0' },
      ],
    },
  ]
  return { made, owner: openOwner(random), browser: openBrowser(random) }
}

function openOwner(random: Random): () => Attempt {
  const member = { email: 'e0', password: 'p0' as string | null }
  let app: { secret: string; lastStep: number } | null = null
  let codes: string[] = []
  let waiting: string[] = []
  const shown = { emails: ['e0'], passwords: ['p0'], secrets: ['s0'], codes: ['none'], challenges: ['none'] }
  const me = { kind: 'member', id: 'n' } as const
  const factor = { kind: 'factor', id: 'n' } as const
  const newCodes = () => Array.from({ length: 3 }, () => random.word(8))

  function signIn(): Attempt {
    const [email, password] = [random.pick(shown.emails), random.pick(shown.passwords)]
    const part = { ...me, act: 'sign-in', email, password } as const
    return {
      what: 'sign-in',
      lost: [part],
      run() {
        if (email !== member.email || password !== member.password) return refuse('invalid_credentials', part)
        if (!app) return ok(part, { ...factor, act: 'enter' })
        const challenge = random.word(8)
        waiting.push(challenge)
        return refuse('second_factor_required', part, { ...factor, act: 'ask', challenge })
      },
      learn({ parts: [, asked] }) {
        if (asked?.kind === 'factor' && asked.act === 'ask') shown.challenges.push(asked.challenge)
      },
    }
  }
  function answer(): Attempt {
    const challenge = shown.challenges.at(-1 - random.below(2)) ?? 'none'
    const proof = random.isOneIn(3)
      ? { secret: random.pick(shown.secrets), step: 1 + random.below(20) }
      : { code: random.pick(shown.codes.slice(-6)) }
    const part = { ...factor, act: 'answer', challenge, proof } as const
    return {
      what: 'answer',
      lost: [part],
      run() {
        const isGood =
          'code' in proof
            ? codes.includes(proof.code)
            : app?.secret === proof.secret && proof.step > app.lastStep
        if (!isGood || !waiting.includes(challenge)) return refuse('invalid_second_factor', part)
        waiting = []
        if ('code' in proof) codes = codes.filter((one) => one !== proof.code)
        else app = proof && { secret: proof.secret, lastStep: proof.step }
        return ok(part)
      },
    }
  }
  function enrol(): Attempt {
    const [secret, step] = [random.word(8), random.below(5)]
    shown.secrets.push(secret)
    const part = (made: string[] | null) => ({ ...factor, act: 'enrol', secret, step, codes: made }) as const
    return {
      what: 'enrol',
      lost: [part(null)],
      run() {
        if (app) return refuse('quota_reached', part(null))
        app = { secret, lastStep: step }
        codes = newCodes()
        waiting = []
        return ok(part(codes))
      },
      learn: learnCodes,
    }
  }
  function replace(): Attempt {
    const part = (made: string[] | null) => ({ ...factor, act: 'replace', codes: made }) as const
    return {
      what: 'replace',
      lost: [part(null)],
      run() {
        if (!app) return refuse('factor_required', part(null))
        codes = newCodes()
        return ok(part(codes))
      },
      learn: learnCodes,
    }
  }
  function learnCodes({ parts: [learned] }: Answer): void {
    if (learned?.kind !== 'factor' || (learned.act !== 'enrol' && learned.act !== 'replace')) return
    shown.codes.push(...(learned.codes ?? []))
  }
  function remove(): Attempt {
    const secret = random.pick(shown.secrets)
    const part = { ...factor, act: 'remove', secret } as const
    return {
      what: 'remove',
      lost: [part],
      run() {
        if (app?.secret !== secret) return refuse('not_found', part)
        clear()
        return ok(part)
      },
    }
  }
  function clear(): void {
    app = null
    codes = []
    waiting = []
  }
  function move(): Attempt {
    const email = `e${random.below(3)}`
    shown.emails.push(email)
    const part = { ...me, act: 'move', email } as const
    return {
      what: 'move',
      lost: [part],
      run() {
        member.email = email
        return ok(part)
      },
    }
  }
  function undo(): Attempt {
    const parts = [
      { ...me, act: 'undo', email: 'e0' },
      { ...factor, act: 'reset' },
    ] as const
    return {
      what: 'undo',
      lost: [...parts],
      run() {
        Object.assign(member, { email: 'e0', password: null })
        clear()
        return ok(...parts)
      },
    }
  }
  function reset(): Attempt {
    const to = `p${random.below(2)}`
    shown.passwords.push(to)
    const parts = [
      { ...me, act: 'password', from: null, to },
      { ...factor, act: 'forget' },
    ] as const
    return {
      what: 'reset',
      lost: [...parts],
      run() {
        member.password = to
        waiting = []
        return ok(...parts)
      },
    }
  }
  const all = [signIn, signIn, answer, answer, answer, enrol, replace, remove, move, undo, reset]
  return () => random.pick(all)()
}

function openBrowser(random: Random): () => Attempt {
  const id = { kind: 'session', id: 'browser' } as const
  let current = 'c0'
  let isEnded = false
  const shown = ['c0']
  return () => {
    const cookie = random.pick(shown)
    const choice = random.below(20)
    if (choice === 0) {
      const part = { ...id, act: 'end', isOwn: false } as const
      return {
        what: 'end',
        lost: [part],
        run() {
          isEnded = true
          return ok(part)
        },
      }
    }
    const refusal = () => (cookie !== current ? 'invalid_token' : isEnded ? 'session_ended' : null)
    if (choice < 12) {
      const part = { ...id, act: 'use', cookie } as const
      const run = () => {
        const code = refusal()
        return code ? refuse(code, part) : ok(part)
      }
      return { what: 'use', lost: [part], run }
    }
    const part = (successor: string | null) => ({ ...id, act: 'renew', cookie, successor }) as const
    return {
      what: 'renew',
      lost: [part(null)],
      run() {
        const code = refusal()
        if (code) return refuse(code, part(null))
        current = random.word(8)
        return ok(part(current))
      },
      learn({ parts: [learned] }) {
        if (learned?.kind === 'session' && learned.act === 'renew' && learned.successor)
          shown.push(learned.successor)
      },
    }
  }
}
