import { setTimeout as sleep } from 'node:timers/promises'
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { type Client, codeOf, JSON_CONTENT, type Request } from '../../kit/client.ts'
import { AWAY, type Observed, type Operation, type Part } from '../checker/history.ts'
import type { Outcome } from '../checker/search.ts'
import type { Random } from '../random.ts'

const text = Type.Optional(Type.String())
const count = Type.Optional(Type.Integer())
const Reply = Type.Object({
  code: text,
  detail: text,
  reason: text,
  session: Type.Optional(Type.Object({ id: Type.String() })),
  user: Type.Optional(Type.Object({ email: Type.String() })),
  accessContext: Type.Optional(Type.Object({ companyId: Type.String() })),
  accessToken: text,
  refreshToken: text,
  id: text,
  email: text,
  secret: text,
  version: count,
  accepted: count,
  duplicates: count,
})
const ReplyCheck = TypeCompiler.Compile(Reply)
export type Reply = Static<typeof Reply>

export interface Session {
  id: string
  accessToken: string
  refreshToken: string
}

export interface Notes extends Observed {
  history: Operation[]
  feed: string[]
  feedAtLast: string[]
  sessions: Session[]
}

export interface Actor {
  name: string
  random: Random
  notes: Notes
  /** One per URL. */
  clients: readonly Client[]
  /** Aborted to stop new work. */
  ending: AbortSignal
}

export interface Ask {
  /** Method and path below /api. */
  what: `${Request['method']} /${string}`
  token?: string
  json?: object
  headers?: Record<string, string>
  /** The number of the URL; random by default. */
  at?: number | undefined
  /** Whether a success belongs to this request. */
  isAnswer?(reply: Reply): boolean
  parts(answer: Answered): Part[]
}

interface Answered {
  outcome: Outcome
  status: number
  code: string
  reply: Reply
}

const NOT_SENT = new Set(['ECONNREFUSED', 'UND_ERR_CONNECT_TIMEOUT'])
const PAUSE_MS = 300
const RETRY_MS = 250
const MOST_ATTEMPTS = 40

export const openNotes = (): Notes => ({ history: [], sessions: [], feed: [], feedAtLast: [] })

export async function repeat({ ending, random }: Actor, work: () => Promise<unknown>): Promise<void> {
  while (!ending.aborted) {
    await sleep(random.fraction() * PAUSE_MS)
    await work()
  }
}

/** Makes one attempt, and pauses if the outcome is unknown. */
export async function perform(actor: Actor, ask: Ask): Promise<Answered> {
  const { name, random, notes, clients } = actor
  const { what, token, json, headers } = ask
  const way = ask.at ?? random.below(clients.length)
  const [method = '', path = ''] = what.split(' ')
  const client = clients[way]
  if (!client) throw new Error('no client has this URL')
  const begin = performance.now()
  const answer = await attempt(client, {
    method: method as Request['method'],
    path: `/api${path}`,
    ...(token !== undefined && { token }),
    headers: { ...(json && JSON_CONTENT), ...headers },
    ...(json && { body: JSON.stringify(json) }),
  })
  const { outcome, status, code, reply } = answer
  notes.history.push({
    ...{ client: name, what, way, begin, end: performance.now(), outcome, code, status },
    isOther: outcome === 'ok' && ask.isAnswer?.(reply) === false,
    parts: NOT_SENT.has(code) ? [] : ask.parts(answer),
  })
  if (outcome === 'unknown') await sleep(RETRY_MS)
  return answer
}

async function attempt(client: Client, request: Request): Promise<Answered> {
  const answer = await client.send(request).catch((error: unknown) => ({ status: 0, text: '', error }))
  if ('error' in answer) return { outcome: 'unknown', status: 0, code: codeOf(answer.error), reply: {} }
  const { status, text } = answer
  // Without the service, a proxy can return a page.
  const isPage = AWAY.includes(status) && !text.startsWith('{')
  const reply: unknown = text === '' || isPage ? {} : JSON.parse(text)
  if (!ReplyCheck.Check(reply)) throw new Error(`${request.path} returned an unexpected body: ${text}`)
  const outcome = status < 300 ? 'ok' : status >= 500 ? 'unknown' : 'refused'
  // This request counted as theft. Others are rejected because an earlier theft ended the session.
  const isTheft = reply.code === 'refresh_token_reused' && reply.reason === 'refresh_reuse'
  return { outcome, status, code: isTheft ? 'refresh_reuse' : (reply.code ?? ''), reply }
}

/** Retries the same request until its outcome is known. It must be idempotent. */
export async function performUntilKnown(actor: Actor, ask: Ask): Promise<Answered> {
  for (let left = MOST_ATTEMPTS; ; left -= 1) {
    const answer = await perform(actor, ask)
    if (answer.outcome !== 'unknown' || left <= 1) return answer
  }
}

export async function atAll({ clients }: Actor, work: (at: number) => Promise<unknown>): Promise<void> {
  await Promise.all(clients.keys().map(work))
}

export function note(
  { name, notes }: Actor,
  what: string,
  part: Part,
  seen: Pick<Operation, 'begin' | 'end' | 'outcome'>,
): void {
  notes.history.push({ client: name, what, ...seen, code: '', status: 0, parts: [part] })
}
