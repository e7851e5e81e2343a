import type { Operation, Part } from '../../scripts/fault-test/checker/history.ts'
import type { Random } from '../../scripts/fault-test/random.ts'

/** A service in memory, which does one thing at a time. It is written down without the checker's rules. */

export interface Answer {
  outcome: 'ok' | 'refused'
  code?: string
  /** What the operation means, once its answer is known. */
  parts: Part[]
}

/** `lost` is what it means if the answer is lost. */
export interface Attempt {
  what: string
  lost: Part[]
  run(): Answer
  learn?(answer: Answer): void
}

const ok = (...parts: Part[]): Answer => ({ outcome: 'ok', parts })
const refuse = (code: string, ...parts: Part[]): Answer => ({ outcome: 'refused', code, parts })

export function openService(random: Random) {
  const sessions = new Map<
    string,
    { current: string; before: string; key: string | null; keys: Set<string>; isEnded: boolean }
  >()
  const member = { status: 'active' as 'active' | 'disabled' }
  const events = new Map<string, string>()
  const tokens = new Map<string, boolean>()
  const secret = { version: 0, value: '' }
  let shown = { version: 0, value: '' }

  const endAll = { kind: 'sessions', id: 'm', act: 'end', kept: null } as const

  function person() {
    let id = ''
    let [token, key] = ['', null as string | null]
    let isOpen = false
    function signIn(): Attempt {
      return {
        what: 'sign-in',
        lost: [],
        run() {
          if (member.status !== 'active') return refuse('invalid_credentials')
          const made = { id: random.word(8), token: random.word(8) }
          sessions.set(made.id, {
            current: made.token,
            before: '',
            key: null,
            keys: new Set(),
            isEnded: false,
          })
          return ok({ kind: 'session', act: 'open', owner: 'm', ...made })
        },
        learn({ parts: [opened] }) {
          key = null
          if (opened?.kind !== 'session' || opened.act !== 'open') return
          isOpen = true
          id = opened.id
          token = opened.token
        },
      }
    }
    function refresh(): Attempt {
      key ??= random.isOneIn(3) ? null : random.word(8)
      const [of, sent, sentKey] = [id, token, key]
      const part = (successor: string | null) =>
        ({ kind: 'session', id: of, act: 'refresh', token: sent, key: sentKey, successor }) as const
      return {
        what: 'refresh',
        lost: [part(null)],
        run() {
          const session = sessions.get(of)
          if (!session || session.isEnded) return refuse('session_ended', part(null))
          if (sent === session.current) {
            Object.assign(session, { before: sent, current: random.word(8), key: sentKey })
            if (sentKey) session.keys.add(sentKey)
            return ok(part(session.current))
          }
          if (sentKey && sent === session.before && sentKey === session.key) return ok(part(session.current))
          if (sentKey && session.keys.has(sentKey)) return refuse('refresh_token_reused', part(null))
          session.isEnded = true
          return refuse('refresh_reuse', part(null))
        },
        learn({ outcome, parts: [learned] }) {
          key = null
          isOpen = outcome === 'ok'
          if (learned?.kind === 'session' && learned.act === 'refresh') token = learned.successor ?? ''
        },
      }
    }
    function use(end: boolean): Attempt {
      const part = end
        ? ({ kind: 'session', id, act: 'end', isOwn: true } as const)
        : ({ kind: 'session', id, act: 'use' } as const)
      return {
        what: end ? 'logout' : 'check',
        lost: [part],
        run() {
          const session = sessions.get(part.id)
          if (!session || session.isEnded) return refuse('session_ended', part)
          session.isEnded = end
          return ok(part)
        },
        learn: ({ outcome }) => {
          isOpen = outcome === 'ok' && !end
        },
      }
    }
    return () => {
      if (!isOpen) return signIn()
      // What was lost is tried again.
      if (key !== null || random.isOneIn(2)) return refresh()
      return use(random.isOneIn(6))
    }
  }

  function admin() {
    function change(): Attempt {
      const status = random.pick(['active', 'disabled'] as const)
      const ended = status === 'disabled' ? [endAll] : []
      return {
        what: 'change',
        lost: ended,
        run() {
          member.status = status
          if (status === 'disabled') for (const session of sessions.values()) session.isEnded = true
          return ok(...ended)
        },
      }
    }
    function regenerate(): Attempt {
      const expected = random.isOneIn(2) ? null : shown.version
      const part = (version: number | null, value: string | null) =>
        ({ kind: 'secret', id: 'c', act: 'regenerate', expected, version, secret: value }) as const
      return {
        what: 'regenerate',
        lost: [part(null, null)],
        run() {
          if (expected !== null && expected !== secret.version)
            return refuse('version_conflict', part(null, null))
          Object.assign(secret, { version: secret.version + 1, value: random.word(8) })
          return ok(part(secret.version, secret.value))
        },
        learn({ outcome, parts: [learned] }) {
          if (outcome !== 'ok' || learned?.kind !== 'secret' || learned.act !== 'regenerate') return
          shown = { version: learned.version ?? 0, value: learned.secret ?? '' }
        },
      }
    }
    function status(): Attempt {
      const part = () =>
        ({ kind: 'secret', id: 'c', act: 'status', version: secret.version || null }) as const
      return { what: 'status', lost: [], run: () => ok(part()) }
    }
    function useToken(): Attempt {
      const id = `token-${random.below(8)}`
      const act = random.pick(['consume', 'consume', 'preview', 'void'] as const)
      const part = { kind: 'token', id, act } as const
      return {
        what: act,
        lost: [part],
        run() {
          if (tokens.has(id)) return refuse('invalid_request', part)
          if (act !== 'preview') tokens.set(id, true)
          return ok(part)
        },
      }
    }
    return () => random.pick([change, regenerate, status, useToken])()
  }

  function sender() {
    let previous: { id: string; content: string } | null = null
    return (): Attempt => {
      const isAgain = previous !== null && random.isOneIn(3)
      const event =
        isAgain && previous ? previous : { id: `e-${random.below(12)}`, content: random.pick(['a', 'b']) }
      previous = event
      const key = shown.value
      const signature = { kind: 'secret', id: 'c', act: 'sign', secret: key } as const
      const part = (isNew: boolean | null, isNamed = false) =>
        ({ kind: 'event', act: 'send', ...event, isNew, isNamed }) as const
      return {
        what: 'event',
        lost: [part(null), signature],
        run() {
          if (key !== secret.value) return refuse('invalid_signature', part(null), signature)
          const stored = events.get(event.id)
          if (stored !== undefined && stored !== event.content)
            return refuse('event_id_conflict', part(null, true), signature)
          events.set(event.id, event.content)
          return ok(part(stored === undefined), signature)
        },
      }
    }
  }

  /** What is read when all has happened, and how the session of the browser began. */
  function stored(at: number): Operation[] {
    const seen = { client: 'reader', code: '', status: 200, outcome: 'ok' } as const
    const opened: Part = { kind: 'session', id: 'browser', act: 'open', owner: 'n', token: 'c0' }
    const reads = Array.from({ length: 12 }, (_, n): Part => {
      const content = events.get(`e-${n}`)
      return { kind: 'event', id: `e-${n}`, act: 'read', contents: content === undefined ? [] : [content] }
    })
    return [
      { ...seen, what: 'create', begin: -2, end: -1, parts: [opened] },
      { ...seen, what: 'read', begin: at, end: at + 1, parts: reads },
    ]
  }

  return { person, admin, sender, browser: openBrowser(random), stored }
}

/** A session with a cookie, which several clients use. */
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
